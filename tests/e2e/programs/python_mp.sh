d=$(mktemp -d); cat > $d/mp_test.py <<'P'
import multiprocessing as mp
def sq(x): return x*x
if __name__=='__main__':
    with mp.Pool(2) as p: print(p.map(sq,range(10)))
    q=mp.Queue(); w=mp.Process(target=q.put,args=('x',)); w.start(); print(q.get()); w.join(); print(w.exitcode)
P
python3 $d/mp_test.py; rm -r $d
