#!/usr/bin/env python3
"""gen_compat.py ROOT [--check]: docs/COMPAT.md from src/abi/syscalls.tbl and the calls that src/kernel defines.

--check: writes nothing; exit status 1 when the file is not up to date, or a note of the table does not fit (a "~" of a call that
does not exist, a "!" of one that does)."""
import os
import re
import sys

HEAD = '''# Compatibility

<!-- Made by tools/gen_compat.py from src/abi/syscalls.tbl: change the table, then `make compat`. -->

Harena's guest kernel answers the system calls of x86-64 Linux as Linux 6.12 does. Each call below is *supported*, *partial*
(with what is missing) or *absent*: then the program gets `ENOSYS`, as on a kernel built without it.

tests/syscall runs {checks} programs natively and in a sandbox and compares every check.

| | calls |
|---|---|
| supported | {full} |
| partial | {partial} |
| absent | {absent} |

What is different on purpose:

- Processor time is not divided into user and system time: the guest kernel runs in the guest's process.
- Resident memory is reported as mapped memory.
- The network ends at the loopback; `MSG_OOB` is not supported.
- Debuggers: strace, gdb and gcore work, also attached to running programs, and with threads. There are no hardware watchpoints:
  `watch` in gdb needs `set can-use-hw-watchpoints 0`. A tracee's calls trap (3 us more each) from its first stop until its next exec,
  also when it is no longer traced. Programs must be dumpable or the tracer have CAP_SYS_PTRACE; Yama's ptrace_scope is 0.
- Nobody in a sandbox administers the machine: such calls are `EPERM`, for root, too.

'''


def table(path):
    for at, line in enumerate(open(path), 1):
        if not line.strip() or line.startswith('#'):
            continue
        m = re.match(r'(\d+) (\S+) (\S+)(?: ([~!]) (.+))?$', line.strip())
        if not m:
            sys.exit(f'{path}:{at}: expected: number name arguments [~ or ! note]')
        yield int(m[1]), m[2], m[4], m[5]


def defined(folder):
    names = set()
    for where, _, files in os.walk(folder):
        for f in files:
            if f.endswith('.c'):
                with open(os.path.join(where, f)) as src:
                    names.update(re.findall(r'^(?:SYSCALL\d\(|long sys_)(\w+)', src.read(), re.M))
    return names


def main():
    root, check = sys.argv[1], '--check' in sys.argv[2:]
    have = defined(os.path.join(root, 'src/kernel'))
    rows, count, wrong = [], {'supported': 0, 'partial': 0, 'absent': 0}, []
    for nr, name, mark, note in sorted(table(os.path.join(root, 'src/abi/syscalls.tbl'))):
        state = 'absent' if name not in have else 'partial' if mark == '~' else 'supported'
        if (mark == '~' and state == 'absent') or (mark == '!' and state != 'absent'):
            wrong.append(f'{name}: "{mark} {note}", but it is {"not " if state == "absent" else ""}defined')
        count[state] += 1
        rows.append(f'| {nr} | {name} | {state} | {note or ""} |')
    checks = len([f for f in os.listdir(os.path.join(root, 'tests/syscall')) if f.endswith('.c')])
    text = HEAD.format(checks=checks, full=count['supported'], partial=count['partial'], absent=count['absent'])
    text += '| nr | call | | note |\n|---|---|---|---|\n' + '\n'.join(rows) + '\n'
    if wrong:
        sys.exit('syscalls.tbl: ' + '; '.join(wrong))
    path = os.path.join(root, 'docs/COMPAT.md')
    if not check:
        with open(path, 'w') as f:
            f.write(text)
    elif not os.path.exists(path) or open(path).read() != text:
        sys.exit('docs/COMPAT.md is not up to date: make compat')


main()
