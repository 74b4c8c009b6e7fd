busybox sh <<'B'
set -e
d=$(busybox mktemp -d); cd $d
for i in 1 2 3 4 5; do echo "line $i" >> f; done
busybox cat f | busybox sed 's/line/row/' | busybox awk '{ s += $2 } END { print s, NR }'
(exit 3) || echo "status $?"
busybox sh -c 'trap "echo trapped" TERM; kill -TERM $$; echo after'
busybox sleep 0.1 & wait $!; echo "waited $?"
busybox tar cf t.tar f && busybox tar tf t.tar && busybox gzip -c f | busybox zcat | busybox md5sum
busybox find . -type f | busybox sort
x=$(busybox seq 1 1000 | busybox wc -l); echo $x
busybox ls -l f | busybox cut -c1-10
cd /; busybox rm -r $d
B
echo $?
