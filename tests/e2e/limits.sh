#!/bin/bash
# Every limit holds, ends as documented, and is what the guest sees. Also where there is no cgroup.
. "$(dirname "$0")/../lib/check"
H=$HARENA
export CFLAGS="-O1 -I$src -o"
json() { python3 -c 'import json,sys
for s in json.load(sys.stdin):
    if s["name"] == sys.argv[1]: print(eval(sys.argv[2], {"s": s}))' "$1" "$2"; }
seconds() { # of wall time for a command, whole ones; its status in $st
  local a=$(date +%s%N)
  timeout 60 "$@" >out 2>err
  st=$?
  took=$((($(date +%s%N) - a) / 1000000))
}
below() { [ "$3" -lt "$2" ] && echo "ok - $1" || { echo "not ok - $1: $3 is not below $2"; fail=1; }; }
cat >spin.py <<'P'
import os, sys, time
for i in range(int(sys.argv[2]) - 1):
    if not os.fork(): break
end = time.time() + float(sys.argv[1])
while time.time() < end: pass
P
# private: anonymous memory, by pages made read-only after they were written, so that RLIMIT_DATA does not count them; data: the
# segment of files in memory, written to without asking the guest's kernel; tables: page tables, half of what is named, for pages that are
# all the host's one of zeroes
cat >hog.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/layout.h"
int main(int argc, char **argv)
{
    long mib = atol(argv[2]);
    if (!strcmp(argv[1], "tables"))
        for (long i = 0; i < mib / 4; i++) {
            char *p = mmap(0, 1ul << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (p == MAP_FAILED)
                return 9;
            madvise(p, 1ul << 30, MADV_NOHUGEPAGE);
            for (long at = 0; at < 1l << 30; at += 2 << 20)
                *(volatile char *)(p + at);
            usleep(2000);
        }
    for (long i = 0; i < mib && strcmp(argv[1], "tables"); i++) {
        char *p = strcmp(argv[1], "data") ? mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                          : (char *)D_BASE + (4ul << 30) + (i << 20);
        if (p == MAP_FAILED)
            return 9;
        memset(p, 1, 1 << 20);
        if (!strcmp(argv[1], "readonly"))
            mprotect(p, 1 << 20, PROT_READ);
        usleep(2000);
    }
    puts("got all");
    sleep(2);
    return 0;
}
C
gcc $CFLAGS hog hog.c || { echo 'needs gcc'; exit 77; }
w="-v $work:/w"

# ---- output ----
status 'output up to the limit' 0 "$H" run --output-limit 10 sh -c 'printf 12345; printf 67890 >&2'
is '  all of it' '1234567890' "$(cat out err)"
status 'output beyond it' 153 "$H" run --output-limit 10 sh -c 'printf 12345; sleep 0.2; printf 678901 >&2; sleep 30'
is '  up to the limit' '12345 67890' "$(cat out) $(head -c 5 err)"
like '  says so' '*harena: wrote more than 10 bytes of output; the sandbox was killed*' "$(cat err)"
seconds "$H" run --output-limit 1M yes
is 'endless output' 153 $st
is '  exactly the limit' 1048576 "$(wc -c <out)"
one_line 'endless output' 'wrote more than 1048576 bytes'
below '  at once' 20000 $took
"$H" run --name "$tag-o" --output-limit 1000 sh -c 'echo up; exec sleep 30' >up 2>err &
await up
"$H" exec "$tag-o" yes >/dev/null 2>&1
wait $!
is 'output of a further program counts' 153 $?
nothing_left 'output'

# ---- processor time and share ----
check_cpu_time() { # how, command prefix...
  local how=$1
  shift
  seconds "$@" "$H" run --cpu-time 500ms sh -c 'while :; do :; done'
  is "$how: --cpu-time, one process" 124 $st
  like '  says so' '*harena: used up its processor time of 0.500 s; the sandbox was killed*' "$(tail -1 err)"
  below '  soon' 30000 $took
  seconds "$@" "$H" run --cpu-time 500ms sh -c 'for i in 1 2 3 4; do while :; do :; done & done; wait'
  is "$how: --cpu-time, several processes" 124 $st
  below '  soon' 30000 $took
  seconds "$@" "$H" run --cpu-time 1s sh -c 'while :; do (while :; do i=$((i + 1)); [ $i -gt 100000 ] && exit; done); done'
  is "$how: --cpu-time, one process after the other" 124 $st
  below '  soon' 40000 $took
  status "$how: --cpu-time that is not used up" 0 "$@" "$H" run --cpu-time 20s sleep 0.5
}
check_cpu_time 'cgroup'
used=$("$H" run --name "$tag-c" --cpus 0.25 $w sh -c 'python3 /w/spin.py 3 2; echo done; sleep 20' >out 2>err & await out; "$H" ps --json | json "$tag-c" 'int(s["cpu_time"] * 1000)'; "$H" kill "$tag-c" 2>/dev/null)
below '--cpus 0.25, two processes for 3 s, ms of processor time' 1300 "${used:-9999}"
n=$(nproc)
is '--cpus: nproc is rounded up' 1 "$("$H" run --cpus 0.5 nproc)"
is '--cpus above what there is' "$n" "$("$H" run --cpus 1000 nproc)"
last=$((n - 1))
is '--cpuset: seen inside' '1 1 1 0' "$("$H" run --cpuset $last sh -c 'echo $(nproc) $(grep -c ^processor /proc/cpuinfo) $(grep -c "^cpu[0-9]" /proc/stat) $(cat /sys/devices/system/cpu/online)')"
"$H" run --name "$tag-p" --cpuset $last sh -c 'echo up; sleep 30' >up &
await up
z=$(pgrep -P "$(broker_of "$tag-p")")
is '--cpuset: all host processes' "$last" "$(for p in $z $(pgrep -P $z); do grep Cpus_allowed_list /proc/$p/status | cut -f2; done | sort -u)"
"$H" kill "$tag-p"; wait
status '--cpuset that is not there' 125 "$H" run --cpuset 1000 true
one_line '--cpuset' 'no processor 1000'
for bad in '--cpuset 1-' '--cpuset 2-1' '--cpuset x' '--cpuset 0,' '--cpus 0' '--cpus -1' '--cpus 2x' '--cpu-time 0' '--tmpfs 1' '--files 3' \
  '--output-limit 0' '--output-limit x'; do
  status "$bad" 125 "$H" run $bad true
  one_line "$bad" "${bad%% *}"
done

# ---- files ----
status '--tmpfs' 1 "$H" run --tmpfs 8M sh -c 'dd if=/dev/zero of=/tmp/f bs=1M count=20 2>&1 | grep -c "No space"; stat -c %s /tmp/f; exit 1'
like '  ENOSPC where it says' '1 8[23]?????' "$(echo $(cat out))" # a few pages belong to the directories
seconds "$H" run --tmpfs 8M $w /w/hog data 400
is '--tmpfs: a guest that goes around its kernel' 137 $st
one_line '--tmpfs' 'files in memory reached their limit'
is '--files' 'EMFILE 100 100 ENFILE' "$("$H" run --files 100 python3 -c '
import os, errno, resource
mine = []
def fill():
    try:
        while True: mine.append(os.open("/dev/null", 0))
    except OSError as e: return errno.errorcode[e.errno]
first = fill()
os.close(mine.pop())
n = len(os.listdir("/proc/self/fd")) # with the one of the directory
mine.append(os.open("/dev/null", 0))
if os.fork() == 0:
    [os.close(f) for f in mine]
    mine.clear()
    os._exit(0 if fill() == "ENFILE" else 1)
print(first, n, resource.getrlimit(resource.RLIMIT_NOFILE)[1], "ENFILE" if os.wait()[1] == 0 else "no")')"
is '--files: root cannot raise it' 'EPERM' "$("$H" run --files 100 python3 -c '
import resource
try: resource.setrlimit(resource.RLIMIT_NOFILE, (101, 101))
except ValueError: print("EPERM")
except PermissionError: print("EPERM")')"

# ---- memory ----
status 'out of memory, the program' 137 "$H" run --memory 64M $w /w/hog readonly 200
one_line 'out of memory, the program' 'out of memory: */w/hog was killed*'
status 'out of memory, page tables' 137 "$H" run --memory 64M $w /w/hog tables 1600
status 'out of memory, a child' 3 "$H" run --memory 64M $w sh -c '/w/hog readonly 200; exit 3'
like '  is told' '*harena: out of memory: 1 process of the sandbox was killed*' "$(cat err)"
"$H" run --name "$tag-m" --memory 64M --pids 40 --cpus 1.5 --timeout 60s --files 200 $w sh -c '/w/hog readonly 200; echo up; exec sleep 30' >up 2>/dev/null &
await up
"$H" ps --json >ps
is 'ps --json: OOM kills' 1 "$(json "$tag-m" 's["oom_kills"]' <ps)"
is 'ps --json: limits' '67108864 40 1.5 60.0 200 None' "$(json "$tag-m" '" ".join(str(s["limits"][k]) for k in ("memory", "pids", "cpus", "timeout", "files", "output"))' <ps)"
is 'ps --json: usage' True "$(json "$tag-m" '0 < s["memory"] <= s["memory_peak"] <= 67108864 and s["cpu_time"] > 0 and 1 < s["host_processes"] < 40' <ps)"
"$H" kill "$tag-m"; wait
is '--pids' 'refused 12' "$("$H" run --pids 12 python3 -c '
import os, threading, time
n = 1
try:
    while n < 40:
        threading.Thread(target=time.sleep, args=(1,), daemon=True).start(); n += 1
except RuntimeError: print("refused", n)')"

# ---- what the guest sees ----
is 'cgroup files' '0::/ 104857600 50000 100000 30 max 0' "$(echo $("$H" run --memory 100M --cpus 0.5 --pids 30 sh -c 'cat /proc/self/cgroup; cd /sys/fs/cgroup; cat memory.max cpu.max pids.max memory.high memory.swap.max'))"
is '  without limits' 'max max 100000 max' "$(echo $("$H" run sh -c 'cd /sys/fs/cgroup; cat memory.max cpu.max pids.max'))"
is '  mounted as they look for it' '/sys/fs/cgroup cgroup2' "$("$H" run sh -c "awk '\$5 == \"/sys/fs/cgroup\" {print \$5, \$9}' /proc/self/mountinfo")"
is '  current use' yes "$("$H" run --memory 100M python3 -c '
b = bytearray(30 << 20)
now, peak = (int(open("/sys/fs/cgroup/memory." + n).read()) for n in ("current", "peak"))
print("yes" if 30 << 20 < now <= peak < 100 << 20 else (now, peak))')"
is '  processor time' yes "$("$H" run --cpu-time 60s python3 -c '
import time
while time.process_time() < 0.3: pass
us = int(open("/sys/fs/cgroup/cpu.stat").readline().split()[1])
print("yes" if us > 300000 else us)')"
is 'meminfo, sysinfo, getrlimit' '102400 104857600 30 77' "$(echo $("$H" run --memory 100M --pids 30 --files 77 python3 -c '
import os, resource
print(open("/proc/meminfo").readline().split()[1], os.sysconf("SC_PHYS_PAGES") * 4096, resource.getrlimit(resource.RLIMIT_NPROC)[0], resource.getrlimit(resource.RLIMIT_NOFILE)[1])'))"
is 'affinity' '1 1' "$("$H" run --cpus 1 python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))')"
nothing_left 'limits'

# ---- how fast it ends ----
cat >bomb.c <<'C'
#include <unistd.h>
int main(void) { for (;;) fork(); }
C
gcc $CFLAGS bomb bomb.c
# without --pids there are thousands of processes, and under a quota the broker, which is under it too, gets no time to kill them
for o in '--memory 64M' '--cpus 0.5' '--memory 256M --cpus 0.5' '--memory 256M --cpus 0.2'; do
  seconds "$H" run --timeout 3s $o $w /w/bomb
  like "fork bomb, $o: status" '1[23][47]' $st
  below "fork bomb, $o: ms" 10000 $took
  nothing_left "fork bomb, $o"
done
bomb() { # in the background; $! is harena
  "$H" run --name "$tag-b$1" --memory 256M --cpus 0.2 $w sh -c 'echo up; exec /w/bomb' >"bombed$1" 2>/dev/null &
  await "bombed$1"
  sleep 2
}
bomb 1
seconds "$H" run true
is 'beside a fork bomb: another sandbox' 0 $st
below '  ms' 10000 $took
seconds "$H" kill "$tag-b1"
is 'fork bomb, harena kill' 0 $st
below '  ms' 10000 $took
wait
nothing_left 'fork bomb, harena kill'
bomb 2
kill -9 $!
wait $! 2>/dev/null
nothing_left 'fork bomb, harena is killed'
if [ "$(id -u)" = 0 ] && mountpoint -q /sys/fs/cgroup/unified && unshare -m true 2>/dev/null; then
  seconds unshare -m sh -c 'umount /sys/fs/cgroup/unified && exec "$@"' sh "$H" run --timeout 3s --memory 256M --cpus 0.2 $w /w/bomb
  like 'fork bomb, version 1 only: status' '1[23][47]' $st
  below '  ms' 10000 $took
  nothing_left 'fork bomb, version 1 only'
fi

# ---- no cgroup ----
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
  cat >nocgroup <<'N'
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs -o ro none /sys/fs/cgroup && exec "$@"' sh "$@"
N
  chmod 755 nocgroup
  check_cpu_time 'no cgroup' ./nocgroup
  status 'no cgroup: says what is missing, once' 0 ./nocgroup "$H" run --memory 64M --cpus 0.5 --cpu-time 5s true
  is '  a line for each' 3 "$(grep -c '^harena: no .* may not make a cgroup' err)"
  status 'no cgroup: --require-layers' 125 ./nocgroup "$H" run --require-layers --memory 64M true
  one_line 'no cgroup: --require-layers' 'layer is missing'
  is 'no cgroup: --cpus is whole processors' 1 "$(./nocgroup "$H" run --cpus 0.5 nproc 2>/dev/null)"
  seconds ./nocgroup "$H" run --memory 64M $w /w/hog readonly 400
  is 'no cgroup: memory that RLIMIT_DATA does not see' 137 $st
  like '  says so' '*harena: out of memory: the sandbox reached its memory limit*' "$(tail -1 err)"
  seconds ./nocgroup "$H" run --memory 64M $w sh -c 'for i in 1 2 3 4 5; do /w/hog private 50 & done; wait'
  is 'no cgroup: memory of many processes' 137 $st
  seconds ./nocgroup "$H" run --memory 64M $w sh -c 'for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; exec /w/hog readonly 400'
  is 'no cgroup: memory while all processors are kept busy' 137 $st
  seconds ./nocgroup "$H" run --memory 64M $w /w/hog tables 1600
  is 'no cgroup: page tables' 137 $st
  seconds ./nocgroup "$H" run --memory 64M $w /w/hog data 400
  is 'no cgroup: files in memory around the kernel' 137 $st
  status 'no cgroup: honest programs' 0 ./nocgroup "$H" run --memory 256M $w sh -c '/w/hog private 50; seq 1000 | sort -n | wc -l; for i in 1 2 3 4 5 6; do /w/hog private 20 & done; wait'
  seconds ./nocgroup "$H" run --timeout 1s --memory 64M $w /w/bomb
  like 'no cgroup: fork bomb' '1[23][47]' $st
  below '  ms' 10000 $took
  nothing_left 'no cgroup'
fi
finish
