d=$(mktemp -d) && cd $d
seq 1 20000 | awk '{ h[$1 % 97] += $1 } END { for (k = 0; k < 97; k++) print k, h[k] }' | md5sum
seq 1 20000 | sed -n '/7$/{s/^/</;s/$/>/;p}' | tail -2
printf 'a b\nc d\n' | sed -E 's/(.) (.)/\2 \1/'; printf 'b\na\nc\n' > in; sed -i 's/b/z/' in; cat in
grep -c 99 <<X
199
299
1
X
grep -rn include /usr/include/stdio.h | md5sum; seq 100 | xargs -n 7 -P 2 echo | wc -w
sort -R in | sort; seq 100000 | sort -rn | head -2; seq 50 | shuf | wc -l; seq 10 | paste -sd+ ; join in in; comm -12 in in
tr a-z A-Z < in; seq 30 | split -l 10 - part.; ls part.*; cat part.* | cksum; od -c in | head -2; diff in part.aa | head -3
seq 200000 > big; xz -k big; xz -dc big.xz | cmp - big && gzip -k big && zcat big.gz | cmp - big && echo same
mkfifo p; (seq 5 > p &) ; cat p; ln -s in l; readlink -f l | sed "s#$d##"; stat -c '%F %a %s' in l; touch -d 2001-02-03 in; date -r in +%F
dd if=big of=copy bs=64K status=none; cmp big copy; truncate -s 5 copy; wc -c copy; cp -a l k; mv k m; ls -l m | cut -c1-10; timeout 0.2 sleep 5; echo $?
cd /; rm -r $d
