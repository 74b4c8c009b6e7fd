# Pipes with bytes in them, background jobs, here-documents, traps, files that are unlinked while open, locks.
cd /tmp || exit 1
trap 'echo trapped >>log' USR1
exec 9>gone; rm gone; echo kept >&9
for i in 1 2 3 4; do
  seq $((i * 1000)) $((i * 1000 + 30000)) | sort -r | awk '{ s += $1 } END { print s }' >sum.$i &
done
n=0
while [ $n -lt 60 ]; do
  kill -USR1 $$
  n=$((n + 1))
  x=$(echo $n | sed 's/$/0/' | cat)
  [ "$x" = "${n}0" ] || echo wrong
  (flock 8; echo $n >>shared) 8>lock &
done
wait
wait
cat sum.[1-4] | md5sum
sort -n shared | md5sum
wc -l <shared
grep -c trapped log | awk '{ print ($1 > 0) }'
