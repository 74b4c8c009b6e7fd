d=$(mktemp -d) && cd $d
mkdir -p a/b/c && echo hello > a/b/f && ln -s b/f a/l && cp -r a z && find . | sort
stat -c '%s %F' a/b/f a/l; readlink a/l; cat a/l
chmod 640 a/b/f; stat -c %a a/b/f; mv a/b/f a/b/g; ls a/b; touch -d 2020-01-02 a/b/g; stat -c %Y a/b/g
tar cf t.tar a && rm -r a && tar xf t.tar && cat a/b/g
printf 'x%.0s' $(seq 1 5000) > big; wc -c big; gzip big; zcat big.gz | md5sum; xz big.gz; ls big*
grep -rn hello a; dd if=/dev/zero of=z0 bs=4k count=10 2>/dev/null; wc -c < z0; truncate -s 3 z0; wc -c < z0
cd /; rm -r $d
