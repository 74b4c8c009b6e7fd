# sqlite in the middle of transactions, some of which are rolled back; locks, a journal, sorting.
import hashlib, os, sqlite3
db = sqlite3.connect('/tmp/db.sqlite')
db.execute('create table t (i integer primary key, v text)')
for n in range(40):
    db.execute('begin')
    for i in range(250):
        db.execute('insert into t values (?, ?)', (n * 1000 + i, hashlib.md5(b'%d/%d' % (n, i)).hexdigest()))
    if n % 5 == 4:
        db.execute('rollback')
    else:
        db.execute('commit')
other = sqlite3.connect('/tmp/db.sqlite')
h = hashlib.sha256()
for row in other.execute('select v, count(*) from t group by substr(v, 1, 3) order by 1'):
    h.update(repr(row).encode())
print(other.execute('pragma integrity_check').fetchone()[0], other.execute('select count(*) from t').fetchone()[0], h.hexdigest())
