#!/bin/bash
# Options of `harena run`: what each does.
. "$(dirname "$0")/../lib/check"
run() { timeout 30 "$HARENA" run "$@"; }

# exit status
status 'the status of the program' 42 "$HARENA" run sh -c 'exit 42'
status 'a signal' 143 "$HARENA" run sh -c 'kill -TERM $$'
status 'not found' 127 "$HARENA" run no-such-program
one_line 'not found' 'no-such-program*not found'
status 'not executable' 126 "$HARENA" run /etc/passwd
one_line 'not executable' '/etc/passwd*ermission denied'

# environment
is '-e' 'b c' "$(run -e A=b --env B=c sh -c 'echo $A $B')"
is '-e NAME takes the value from here' 'here' "$(A=here run -e A sh -c 'echo $A')"
is '-e NAME that is not set' 'unset' "$(run -e NOT_SET_AT_ALL sh -c 'echo ${NOT_SET_AT_ALL-unset}')"
is 'nothing else comes in' 'unset' "$(SECRET=1 run sh -c 'echo ${SECRET-unset}')"
is 'a value with blanks and newlines' 'a  b|c' "$(run -e "X=a  b
c" sh -c 'echo "$X"' | tr '\n' '|' | sed 's/|$//')"
status '-e without a name' 125 "$HARENA" run -e =x true
one_line '-e without a name' 'NAME=VALUE'

# directory
is '-w' '/usr/bin' "$(run -w /usr/bin pwd)"
is 'without -w: the current directory' "$work" "$(run pwd)"
status '-w of a missing directory' 125 "$HARENA" run -w /no/such true
one_line '-w of a missing directory' '/no/such*no such directory'
status '-w of a file' 125 "$HARENA" run -w /etc/passwd true
one_line '-w of a file' '/etc/passwd*not a directory'
status '-w that is not absolute' 125 "$HARENA" run -w usr true
one_line '-w that is not absolute' 'absolute'
is 'a current directory that is not shown: /tmp' '/tmp' "$(cd / && run pwd 2>&1)"
like 'and a terminal is told' '*not shown*/tmp' "$(cd / && script -qec "$HARENA run pwd" /dev/null </dev/null | tr -d '\r')"
is 'but not with -w' '/usr' "$(cd / && script -qec "$HARENA run -w /usr pwd" /dev/null </dev/null | tr -d '\r')"

# user
is '-u UID' '1234 1234 /' "$(run -u 1234 sh -c 'echo $(id -u) $(id -g) $HOME')"
is '-u UID:GID' '1234 99' "$(run -u 1234:99 sh -c 'echo $(id -u) $(id -g)')"
is '-u NAME' "$(id -u nobody) $(id -g nobody)" "$(run -u nobody sh -c 'echo $(id -u) $(id -g)')"
is '-u NAME: HOME' "$(getent passwd nobody | cut -d: -f6)" "$(run -u nobody sh -c 'echo $HOME')"
is '-u NAME:GROUP' "$(id -u nobody) $(getent group daemon | cut -d: -f3)" "$(run -u nobody:daemon sh -c 'echo $(id -u) $(id -g)')"
is '-e HOME wins' '/x' "$(run -u nobody -e HOME=/x sh -c 'echo $HOME')"
is 'a user is not almighty' 'no' "$(run -u 1234 sh -c 'echo x >/usr/x 2>&-; cat /etc/shadow 2>&- || echo no')"
status '-u of nobody known' 125 "$HARENA" run -u no-such-user true
one_line '-u of nobody known' 'no-such-user*no such user'
status '-u nonsense' 125 "$HARENA" run -u : true
one_line '-u nonsense' 'USER'
status '-u -1' 125 "$HARENA" run -u -1 true
status '-u 4294967295' 125 "$HARENA" run -u 4294967295 true
mkdir -p tree/etc tree/bin tree/lib64 tree/lib
printf 'root:x:0:0::/root:/bin/sh\nbroken line\nsam:x:77:78:Sam:/home/sam:/bin/sh\nhuge:x:99999999999:1::/:\n' >tree/etc/passwd
printf 'wheel:x:5:root,sam\nsams:x:78:\nx:x:6:sam\n' >tree/etc/group
cp /bin/sh /usr/bin/id tree/bin/
for l in $(ldd tree/bin/* | grep -o '/[^ ]*' | grep -v :); do cp --parents "$l" tree/; done
sh=/bin/sh
like 'names are those inside' 'uid=77* gid=78* groups=78*,5*,6* /home/sam' "$(run --root tree -u sam $sh -c 'echo $(/bin/id 2>/dev/null) $HOME')"
status 'a number beyond the range' 125 "$HARENA" run --root tree -u huge $sh -c true

# names
is '--hostname' 'some.host' "$(run --hostname some.host sh -c 'hostname 2>&- || uname -n')"
status '--name' 0 "$HARENA" run --name "$tag-n" true
status '--name that leads elsewhere' 125 "$HARENA" run --name ../x true
one_line '--name that leads elsewhere' 'invalid name'

# mounts
mkdir -p d/sub && echo text >d/f
is '-v' 'text' "$(run -v "$work/d:/data" cat /data/f)"
is '-v is read-only' 'ro' "$(run -v "$work/d:/data" sh -c 'echo x >/data/g 2>&- || echo ro')"
run -v "$work/d:/data:rw" sh -c 'echo new >/data/g; mkdir /data/dir; mv /data/g /data/dir/h'
is '-v rw' 'new' "$(cat d/dir/h)"
is '-v overlay' 'changed text' "$(echo $(run -v "$work/d:/data:overlay" sh -c 'echo changed >/data/f; cat /data/f') $(cat d/f))"
is '-v of a file' 'text' "$(run -v "$work/d/f:/one" cat /one)"
is '-v of a relative source' 'text' "$(run -v d:/data cat /data/f)"
is '-v twice' 'text text' "$(echo $(run -v d:/a -v d:/b/c cat /a/f /b/c/f))"
for v in /no/such:/x d d:data d:/x:what :/x d: d:/../x; do
  status "-v $v" 125 "$HARENA" run -v "$v" true
  one_line "-v $v" '-v'
done
is '--root' 'inside' "$(run --root tree $sh -c 'echo inside')"
run --root tree $sh -c 'echo x >/new; echo y >>/etc/passwd'
is '--root is not written' 'no 4' "$([ -e tree/new ] || echo no) $(wc -l <tree/etc/passwd)"
"$HARENA" image build tree -o image >/dev/null
is '--image' 'inside 77' "$(run --image image -u sam $sh -c 'echo inside $(/bin/id -u)')"

# --read-only
writes='echo a >/tmp/x; read a </tmp/x; echo b >/dev/shm/x; read b </dev/shm/x; echo c >/dev/null; echo $a $b $?'
refused() { is "--read-only $1: what is refused" 7 "$(run --read-only "${@:2}" sh -c \
  'for f in / /etc /usr /root /run /var/tmp .; do [ -d $f ] || continue; (echo x >$f/new) 2>&1; done' | grep -c 'Read-only file system')"; }
mkdir -p tree/usr tree/run tree/root tree/var/tmp
cp /bin/mount tree/bin/ && for l in $(ldd tree/bin/mount | grep -o '/[^ ]*' | grep -v :); do cp --parents "$l" tree/; done
"$HARENA" image build tree -o full >/dev/null
mkdir -p tree/proc tree/sys tree/dev tree/tmp # what the first image lacks is made, the second has all
"$HARENA" image build tree -o whole >/dev/null
for o in '' "--root tree" "--image full" "--image whole"; do
  is "--read-only $o: what can be written" 'a b 0' "$(run --read-only $o sh -c "$writes")"
  refused "$o" $o
  like "--read-only $o: mount says so" '*on / type * (ro,*' "$(run --read-only $o mount | tr '\n' ' ')"
  like "--read-only $o: stays so" '*write-protected*Read-only*' "$(run --read-only $o sh -c 'mount -o remount,rw /; (echo x >/x)' 2>&1 | tr '\n' ' ')"
  is "--read-only $o: a volume is not" 'v text' "$(run --read-only $o -v "$work/d:/no/such/place:rw" sh -c \
    'echo v >/no/such/place/v; read t </no/such/place/f; read v </no/such/place/v; echo $v $t')"
done
is '--read-only: the image itself' 'erofs' "$(run --read-only --image whole mount | sed -n 's|image on / type \([^ ]*\) .*|\1|p')"

# limits
status '--timeout' 124 "$HARENA" run --timeout 300ms sleep 20
one_line '--timeout' 'timed out'
status '--timeout that is not reached' 0 "$HARENA" run --timeout 1h true
for t in 0 -1 x 5y '' 1e99; do status "--timeout '$t'" 125 "$HARENA" run --timeout "$t" true; done
for m in 0 x 1k -5M 5Q 99999999T 99999999999999999999; do status "--memory $m" 125 "$HARENA" run --memory "$m" true; done
for p in 0 x -3 1.5 99999999; do status "--pids $p" 125 "$HARENA" run --pids "$p" true; done
status '--memory: more than the machine has' 0 "$HARENA" run --memory 1T true
is '--memory is what programs see' '96' "$(run --memory 96M sh -c "free -m | awk '/Mem/{print \$2}'")"
is '--memory: files' 'full' "$(run --memory 64M sh -c 'dd if=/dev/zero of=/tmp/x bs=1M count=100 2>&- || echo full')"
is '--memory: more than there is' 'refused' "$(run --memory 64M /usr/bin/perl -e 'my $x = eval { "x" x (200 << 20) }; print $@ ? "refused" : "got it"' 2>&- || echo refused)"
is '--memory: a program that eats all is killed, others go on' '137 on' "$(run --memory 64M sh -c \
  '/usr/bin/perl -e "push @a, \"x\" x 1000000 while 1"; echo $? on' 2>/dev/null)"
status '--memory: the program itself is killed' 137 "$HARENA" run --memory 64M perl -e 'push @a, "x" x 1000000 while 1'
one_line '--memory: the program itself is killed' 'memory limit*--memory'
is '--pids: EAGAIN' 'refused' "$(run --pids 10 /usr/bin/perl -e '
  $| = 1; for (1..20) { my $p = fork; if (!defined $p) { print $!{EAGAIN} ? "refused" : "other"; last } if (!$p) { sleep 5; exit } } kill 9, -getpgrp' 2>/dev/null)"
is '--pids: enough' 'done' "$(run --pids 12 sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 0.2 & done; wait; echo done')"

# the rest
is '--verbose: nothing about a plain program' 0 "$(run --verbose true 2>&1 | grep -c 'does not exist')"
like '--verbose' '*does not exist*' "$(run --verbose /usr/bin/perl -e 'syscall(466, 1)' 2>&1)"
status 'an option that does not exist' 125 "$HARENA" run --no-such-option true
one_line 'an option that does not exist' '--no-such-option*--help'
for h in 'run -h' 'run --help' 'image build --help'; do like "$h" 'usage: harena*' "$("$HARENA" $h)"; done
status 'no command' 125 "$HARENA" run --verbose
one_line 'no command' 'no command'
is 'options end at the command' '--name -v' "$(run echo --name -v)"
nothing_left options
finish
