python3 - <<'P'
import subprocess, threading, json, sqlite3, os, tempfile, asyncio, multiprocessing, http.server, urllib.request
print(subprocess.run(['sh','-c','echo hi; exit 4'],capture_output=True))
r=[]; ts=[threading.Thread(target=r.append,args=(i,)) for i in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]; print(sorted(r))
c=sqlite3.connect(':memory:'); c.execute('create table t(a)'); c.executemany('insert into t values(?)',[(i,) for i in range(100)]); print(c.execute('select sum(a) from t').fetchone())
async def f(i): await asyncio.sleep(0.01); return i
async def m(): return sum(await asyncio.gather(*[f(i) for i in range(10)]))
print(asyncio.run(m()))
s=http.server.HTTPServer(('127.0.0.1',0),http.server.SimpleHTTPRequestHandler); s.RequestHandlerClass.log_message=lambda *a:None
os.chdir('/usr'); threading.Thread(target=s.serve_forever,daemon=True).start()
print(urllib.request.urlopen('http://127.0.0.1:%d/'%s.server_port).status); s.shutdown()
d=tempfile.mkdtemp(); p=d+'/x.db'; c=sqlite3.connect(p); c.execute('create table t(a)'); c.execute('insert into t values(1)'); c.commit(); print(c.execute('select * from t').fetchall())
P
