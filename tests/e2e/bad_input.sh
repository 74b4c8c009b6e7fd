#!/bin/bash
# Damaged input and guests that misbehave: a clear error or a clean limit, the host unharmed, nothing left.
. "$(dirname "$0")/../lib/check"
H=$HARENA
cp_with_libraries() { # FILE TREE
  cp --parents "$1" "$2"
  for l in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | grep -v :); do [ -e "$2$l" ] || cp --parents "$l" "$2"; done
}
mkdir -p tree/bin tree/etc
cp_with_libraries /usr/bin/dash tree; cp tree/usr/bin/dash tree/bin/sh
"$H" image build tree -o image >/dev/null
no_bug() { is "$1: no bug of harena's" 0 "$(grep -c 'guest kernel\|bug\|broker ended' "$work/err")"; }

# images
status 'a good image' 0 "$H" run --image image /bin/sh -c true
size=$(stat -c %s image)
: >empty; head -c 1000000 /dev/urandom >random
for n in 100 1024 1100 4096 65536 $((size / 2)); do head -c $n image >cut; status "image cut at $n" 125 "$H" run --image cut /bin/sh -c true; one_line "image cut at $n" damaged; done
for f in empty random; do status "image: $f file" 125 "$H" run --image $f /bin/sh; one_line "image: $f file" damaged; done
status 'image: a directory' 125 "$H" run --image tree /bin/sh; one_line 'image: a directory' 'not a file'
status 'image: /dev/zero' 125 "$H" run --image /dev/zero /bin/sh; one_line 'image: /dev/zero' 'not a file'
status 'image: missing' 125 "$H" run --image no-such-image /bin/sh; one_line 'image: missing' 'no-such-image*No such file'
status 'image build -o without a name' 125 "$H" image build tree -o; one_line 'image build -o without a name' 'usage'
status 'image build of nothing' 125 "$H" image build no-such-dir -o x; one_line 'image build of nothing' 'no-such-dir'
status 'image build of a bad archive' 125 "$H" image build random -o x
status 'image build of empty input' 125 "$H" image build - -o x </dev/null; one_line 'image build of empty input' 'cannot read the archive'
is 'no half image is left' '' "$(ls x* 2>/dev/null)"
for seed in $(seq 20); do # bits that flip anywhere
  python3 - $seed <<'P'
import random, sys
r = random.Random(int(sys.argv[1]))
d = bytearray(open('image', 'rb').read())
for i in range(40):
    at = r.randrange(1024, len(d)) if r.random() < 0.5 else r.randrange(1024, 1024 + 8192)
    d[at] ^= 1 << r.randrange(8)
open('flipped', 'wb').write(d)
P
  timeout 20 "$H" run --image flipped /bin/sh -c 'for f in /bin/* /lib/*/* /etc/*; do read x <$f; done; exit 0' >out 2>err
  st=$?
  case $st in 0|1|2|12[5-7]|13[2-9]) ok=yes ;; *) ok="status $st" ;; esac
  is "image with flipped bits ($seed)" 'yes 0' "$ok $(grep -c 'panic\|broker ended' err)"
done

# roots and programs
mkdir none
status 'a root without a shell' 127 "$H" run --root none sh; one_line 'a root without a shell' 'sh: not found'
status 'a root that is missing' 125 "$H" run --root no-such true; one_line 'a root that is missing' 'no-such: No such file'
status 'a root that is a file' 125 "$H" run --root image true; one_line 'a root that is a file' 'not a directory'
cd tree/bin
printf '#!/no/such/interpreter\n' >no_interpreter
printf '#!\n' >no_name
printf '#!/bin/loop\n' >loop
(printf '#!/'; head -c 5000 /dev/zero | tr '\0' a) >long_line
head -c 300 sh >short_elf
head -c 30000 sh >cut_elf
: >nothing
head -c 5000 /dev/urandom >garbage
patch() { cp sh "$1"; printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }
patch other_machine 18 '\267'
patch headers_nowhere 32 '\377\377\377\377\377\377\377\177'
patch many_headers 56 '\377\377'
patch entry_nowhere 24 '\377\377\377\377\377\377\377\177'
chmod +x *
cd ../..
status 'no interpreter' 127 "$H" run --root tree /bin/no_interpreter; one_line 'no interpreter' 'interpreter'
for f in no_name loop long_line short_elf nothing garbage other_machine headers_nowhere many_headers; do
  status "program: $f" 126 "$H" run --root tree /bin/$f; one_line "program: $f" "/bin/$f"
done
for f in entry_nowhere cut_elf; do
  timeout 20 "$H" run --root tree /bin/$f >out 2>err
  is "program: $f dies of a signal or is refused" yes "$(case $? in 13[0-9]|126) echo yes ;; *) echo $? ;; esac)"
  no_bug "program: $f"
done
is 'a shell falls back for a file without #!' 'plain' "$(printf 'echo plain\n' >tree/bin/plain; chmod +x tree/bin/plain; "$H" run --root tree /bin/sh -c /bin/plain)"
status 'arguments that are too long' 125 "$H" run true $(seq 100000); one_line 'arguments that are too long' 'too long'
status 'a directory as program' 126 "$H" run /usr; one_line 'a directory as program' 'ermission denied'
status 'an empty name' 127 "$H" run ''
status 'a very long name' 126 "$H" run /$(head -c 5000 /dev/zero | tr '\0' a)
status 'mount over a file' 125 "$H" run -v tree:/etc/passwd/x true; no_bug 'mount over a file'
status 'too many volumes' 125 "$H" run $(for i in $(seq 200); do echo -v tree:/m$i; done) true; no_bug 'too many volumes'

# guests that misbehave
lim() { timeout 60 "$H" run --name "$tag-lim" --memory 64M --pids 60 --timeout 15s "$@" >out 2>err; }
free_kb() { awk '/MemAvailable/{print $2}' /proc/meminfo; }
lim sh -c 'dd if=/dev/zero of=/tmp/fill bs=1M 2>/dev/null; echo st $?; echo x >/dev/shm/y 2>/dev/null || echo full; rm /tmp/fill; echo x >/tmp/y && echo room'
is 'a full tmpfs' '0 st 1 full room' "$? $(echo $(cat out))"
lim sh -c 'i=0; while :>/tmp/f$i; do i=$((i+1)); [ $i = 200000 ] && break; done 2>/dev/null; echo end'
like 'a tmpfs with too many files' '[012]' "$?"; no_bug 'too many files'
lim sh -c ':(){ :|:& }; :; sleep 30'
is 'a fork bomb is ended' yes "$(case $? in 2|124|254) echo yes ;; *) echo $? ;; esac)"; no_bug 'a fork bomb'
nothing_left 'a fork bomb'
lim perl -e '$| = 1; while (1) { my $p = fork; if (defined $p && !$p) { sleep 30; exit } if (!defined $p) { print $!{EAGAIN} ? "EAGAIN\n" : "other\n"; kill 9, -getpgrp } }'
is 'fork without end' 'EAGAIN' "$(cat out)"
before=$(free_kb)
lim sh -c 'perl -e "\$| = 1; push @a, \"x\" x 1000000 while 1"; echo st $?'
is 'all memory: killed, the sandbox goes on' 'st 137' "$(cat out)"
lim perl -e 'for (1..20) { if (!fork) { push @a, "x" x 500000 while 1 } } wait for 1..20; print "end\n"'
is 'all memory, by many: ended or killed' yes "$(case $? in 0|124|137) echo yes ;; *) echo $? ;; esac)"
no_bug 'all memory, by many'
after=$(free_kb)
is 'the memory is the hosts again' yes "$([ $((before - after)) -lt 300000 ] && echo yes || echo "$before $after")"
lim perl -e 'my @f; while (open my $f, "<", "/etc/passwd") { push @f, $f } print $!{EMFILE} ? "EMFILE" : $!, " ", @f > 1000 ? "many" : "few"'
is 'every descriptor' 'EMFILE many' "$(cat out)"
lim perl -e 'use POSIX; for (1..8) { if (!fork) { my @f; for my $d (glob "/usr/bin/* /usr/lib/*/*") { open my $f, "<", $d or last; push @f, $f; last if @f > 1000 } sleep 2; exit } } wait for 1..8; print open(my $f, "<", "/etc/passwd") ? "fine" : "$!"'
is 'all open files of the broker: others can open afterwards' 'fine' "$(cat out)"
lim perl -e 'use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(1..31)); for (keys %SIG) { $SIG{$_} = "IGNORE" unless /NUM|KILL|STOP|RT/ } 1 while 1'
is 'every signal blocked: the time-out ends it' 124 $?
lim sh -c 'kill -STOP $$'
is 'stopped for ever: the time-out ends it' 124 $?
lim sh -c 'exec <&- >&- 2>&-; exec sleep 1'
is 'no descriptors at all' 0 $?
lim sh -c 'ulimit -v 1000000; ulimit -n 3 2>/dev/null; cat /etc/hostname 2>/dev/null; exit 4'
is 'limits of its own' 4 $?
lim perl -e 'mkdir "/tmp/d" and chdir "/tmp/d"; for (1..3000) { mkdir("x" x 200) && chdir("x" x 200) or last } print "end"'
is 'a very deep directory' 'end' "$(cat out)"
lim perl -e '$0 = "\e[31m" . "x" x 100000; print "x" x 70000, "\n" for 1..100; exit 6'
is 'long titles and much output' '6 7000100' "$? $(stat -c %s out)"
mkdir locked && echo secret >locked/f && chmod 000 locked
"$H" run -v locked:/l sh -c 'ls /l >/dev/null 2>&1; true' 2>err; st=$?
is 'an unreadable directory: refused, or nothing to be seen' yes "$(case $st in 0|125) echo yes ;; *) echo $st ;; esac)"; no_bug 'an unreadable directory'
printf 'x%.0s' $(seq 300) | xargs -I N touch tree/N 2>/dev/null
status 'odd names' 0 "$H" run -v "$(mkdir -p 'odd
name'; echo "$work/odd
name")":/odd true; no_bug 'odd names'
nothing_left 'bad input'
chmod 700 locked
finish
