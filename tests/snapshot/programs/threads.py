import threading, subprocess, time, os, socket, sys, json, hashlib
res={}
def work(n):
    h=hashlib.sha256()
    for i in range(400000):
        h.update(b'%d'%i)
    res[n]=h.hexdigest()
def echo():
    s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(1)
    port.append(s.getsockname()[1]); ev.set()
    c,_=s.accept()
    while True:
        d=c.recv(100)
        if not d: break
        c.sendall(d.upper())
port=[];ev=threading.Event()
ts=[threading.Thread(target=work,args=(i,)) for i in range(3)]+[threading.Thread(target=echo)]
[t.start() for t in ts]
ev.wait()
c=socket.create_connection(('127.0.0.1',port[0]))
out=[]
for i in range(20):
    c.sendall(b'hello%d'%i); out.append(c.recv(100).decode())
    out.append(subprocess.run(['sh','-c','echo $(( %d * 2 )) | cat'%i],capture_output=True,text=True).stdout.strip())
    time.sleep(0.02)
c.close()
[t.join() for t in ts]
print(hashlib.sha256(json.dumps([sorted(res.items()),out]).encode()).hexdigest())
