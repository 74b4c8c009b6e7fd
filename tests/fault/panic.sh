#!/bin/bash
# A guest kernel that cannot go on prints one readable report, whatever the guest has damaged, and the sandbox ends with 125.
. "$(dirname "$0")/../lib/check"
cat >damage.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/layout.h"
int main(int argc, char **argv) /* damage ADDRESS VALUE: writes into the kernel's state */
{
    prctl(PR_SET_NAME, "evil\033[31m\n\"x");
    if (argv[3])
        fork();
    *(volatile unsigned long *)strtoul(argv[1], NULL, 16) = strtoul(argv[2], NULL, 16);
    getppid();
    for (int i = 0; i < 100; i++) {
        close(open("/etc/passwd", O_RDONLY));
        if (!fork())
            _exit(0);
        wait(NULL);
    }
    puts("survived");
    return 0;
}
C
gcc -O -I"$src" -o damage damage.c || { echo 'needs gcc'; exit 77; }
kernel=$BUILD/src/launch/harena-kernel
address() { nm "$kernel" | awk -v n="$1" '$3 == n { print $1 }'; }
damage() { status "$1" 125 "$HARENA" run --timeout 20s -v "$work:/w" /w/damage "${@:2}"; }

damage 'a list that points nowhere' "$(address free_files)" dead000
like '  what happened' '*guest kernel panic: signal 11 in the kernel at address dead*' "$(cat err)"
is '  registers' 5 "$(grep -cE '^harena: (ip |rax|rsi|r9 |r13) ' err)"
is '  build' "$(readelf -n "$kernel" | sed -n 's/.*Build ID: //p')" "$(sed -n 's/^harena: build //p' err)"
like '  backtrace with names' '*backtrace*file_alloc+0x*do_open_at+0x*syscall_dispatch+0x*syscall_entry+0x*' "$(tr '\n' ' ' <err)"
like '  the call' '*system call openat (257): ffffff9c * by a jump*' "$(cat err)"
like '  the calls before' '*last calls, newest first: openat getppid prctl *' "$(cat err)"
like '  the task, escaped' '*task 2 of process 2, "evil?x1b?31m?x0a?x"*' "$(cat err)"
is '  nothing raw' 0 "$(grep -c "$(printf '\033')" err)"
is '  each line harena'"'"'s' 0 "$(grep -vc '^harena: ' err)"
is '  one report' 1 "$(grep -c 'guest kernel panic' err)"

"$HARENA" run --timeout 20s -v "$work:/w" /w/damage "$(address free_files)" dead000 two >out 2>err
is 'two processes at once: one report' '125 1' "$? $(grep -c 'guest kernel panic' err)"
# A task that points nowhere: the carrier still tells
cat >own_task.c <<'C'
#include <unistd.h>
#include <sys/syscall.h>
int main(void)
{
    unsigned long carrier;
    __asm__ volatile("mov %%gs:16,%0" : "=r"(carrier));
    *(unsigned long *)(carrier + 40) = 0xdead0000; /* carrier.task */
    for (;;)
        syscall(SYS_getppid);
}
C
gcc -O -o own_task own_task.c
status 'a task that points nowhere' 125 "$HARENA" run --timeout 20s -v "$work:/w" /w/own_task
like '  reported as far as it goes' '*guest kernel panic: signal 11*' "$(cat err)"
for i in 1 2 3; do # all of it
  "$HARENA" run --timeout 20s -v "$work:/w" python3 -c '
import ctypes, os
k = int("'"$(address kstate_start)"'", 16)
ctypes.memset(k, '$((i * 85))', 65536)
while True: os.getpid(); os.stat("/")' >out 2>err
  like "the whole of the kernel's state overwritten ($i)" '12[45]|137' "$(s=$?; [ $s = 137 ] && s=125; echo "$s|137")"
  is '  ends with a word' yes "$([ -s err ] && echo yes)"
done
nothing_left 'panics'
finish
