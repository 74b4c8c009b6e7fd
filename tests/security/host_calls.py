#!/usr/bin/env python3
"""host_calls.py TABLE TRACE SRC: which rules of the host interface a run has used. TRACE is of strace -f -X raw over a whole run. Prints
a line for each rule, value or flag that nobody used, and for each call that no rule has (which the host would have killed).

Units: each call; each alternative of a call; each value of an `in` list; each bit of a `bits` mask."""
import re
import subprocess
import sys

HEADERS = ['base/types.h', 'base/layout.h', 'host/hostabi.h']
SYSTEM = ['linux/futex.h', 'linux/mman.h', 'linux/time.h', 'asm/unistd.h']
MMAP_FLAGS = '(MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE)'


def read_table(path):
    calls = {}
    for line in open(path):
        if line.strip() and not line.startswith('#'):
            if not line[0].isspace():
                alts = calls[line.strip()] = []
            else:
                alts.append([] if line.strip() == 'any' else [t.strip() for t in line.split(';')])
    return calls


def numbers(words, src):
    """Values of C constant expressions, by the compiler."""
    words = sorted(words)
    text = ''.join(f'#include <{h}>\n' for h in SYSTEM) + ''.join(f'#include "{h}"\n' for h in HEADERS)
    text += f'#define MMAP_FLAGS {MMAP_FLAGS}\n'
    text += ''.join(f'VALUE {i} = (unsigned long long)({w});\n' for i, w in enumerate(words))
    out = subprocess.run(['gcc', '-E', '-P', '-I', src, '-'], input=text, stdout=subprocess.PIPE, check=True, text=True).stdout
    program = '#include <stdio.h>\nint main(void) {\n'
    program += ''.join(f'printf("%llu\\n", {m[1]});\n' for m in re.finditer(r'VALUE \d+ = (.*?);', out)) + 'return 0; }\n'
    subprocess.run(['gcc', '-x', 'c', '-o', 'values', '-'], input=program, check=True, text=True)
    got = subprocess.run(['./values'], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    return dict(zip(words, map(int, got)))


def words_of(calls):
    for alts in calls.values():
        for tests in alts:
            for t in tests:
                yield from re.sub(r'^a\d (low )?(<=|==|in|bits|range|&)', '', t).replace('==', ' ').split()


def fits(test, args, value):
    """Does the test hold? Returns (holds, the units it exercises)."""
    m = re.fullmatch(r'a([0-5]) (low )?(<=|==|in|bits|&|range) (.+)', test)
    v = args[int(m[1])] & (0xffffffff if m[2] else ~0)
    op, rest = m[3], m[4]
    if op == '<=':
        return v <= value[rest], []
    if op == '==':
        return v == value[rest], []
    if op == 'in':
        hit = [w for w in rest.split() if value[w] == v]
        return bool(hit), [f'a{m[1]} = {w}' for w in hit]
    if op == 'bits':
        return not v & ~value[rest], [f'a{m[1]} bit {1 << b:#x}' for b in range(32) if v >> b & 1]
    if op == '&':
        mask, want = rest.split(' == ')
        return v & value[mask] == value[want], []
    start, end = rest.split()
    return value[start] <= v < value[end], []


def guest_calls(path):
    """(name, arguments) of the calls that guest processes made after their filter was on."""
    outside, zygote = set(), None
    pattern = re.compile(r'^(\d+)\s+(\w+)\((.*?)(?:\)\s+= (-?\w+).*| <unfinished.*)?$')
    filtered = False
    for line in open(path, errors='replace'):
        m = pattern.match(line)
        if not m:
            continue
        pid, name, text, result = m[1], m[2], m[3], m[4]
        if not outside:
            outside.add(pid)
        if zygote is None and name == 'mmap' and text.startswith('0x7effd0000000,'):
            zygote = pid
            outside.discard(pid)
        if pid in outside:
            if name in ('clone', 'clone3', 'fork', 'vfork') and result and result.isdigit() and result != zygote:
                outside.add(result)
            continue
        if zygote is None:
            outside.add(pid)
            continue
        if not filtered: # the launcher, on its way
            filtered = pid == zygote and name == 'set_robust_list'
            if not filtered:
                continue
        args = []
        if name == 'clone':
            flags = re.search(r'flags=([^,]*)', text)
            args = [sum(int(x, 0) for x in flags[1].split('|')) if flags else 0]
        elif name == 'pwrite64':
            args = [int(text.split(',')[0], 0)]
        elif name == 'madvise' or name == 'mmap' or name == 'futex' or name == 'mremap' or name == 'tgkill' or \
                name == 'clock_gettime' or name == 'mprotect':
            for w in text.split(','):
                w = w.strip()
                args.append(0 if w == 'NULL' else int(w, 0) if re.fullmatch(r'-?(0x[0-9a-f]+|\d+)', w) else 0)
        yield name, [a & 0xffffffffffffffff for a in args + [0] * 6]


def main():
    table, trace, src = sys.argv[1:]
    calls = read_table(table)
    value = numbers(set(words_of(calls)), src)
    wanted, used, seen = set(), set(), 0
    for name, alts in calls.items():
        wanted.add(name)
        for i, tests in enumerate(alts):
            wanted.add(f'{name}, alternative {i + 1}')
            for t in tests:
                m = re.fullmatch(r'a([0-5]) (in|bits) (.+)', t)
                if m and m[2] == 'in':
                    wanted |= {f'{name}, alternative {i + 1}, a{m[1]} = {w}' for w in m[3].split()}
                elif m: # a bit once, in whichever alternative
                    wanted |= {f'{name}, a{m[1]} bit {1 << b:#x}' for b in range(32) if value[m[3]] >> b & 1}
    for name, args in guest_calls(trace):
        seen += 1
        if name not in calls:
            print(f'no rule: {name}')
            continue
        used.add(name)
        for i, tests in enumerate(calls[name]):
            results = [fits(t, args, value) for t in tests]
            if all(ok for ok, _ in results):
                used.add(f'{name}, alternative {i + 1}')
                for _, units in results:
                    for u in units:
                        used.add(f'{name}, {u}' if ' bit ' in u else f'{name}, alternative {i + 1}, {u}')
    print(f'{len(calls)} calls, {len(wanted)} rules, values and flags; {seen} calls seen', file=sys.stderr)
    for w in sorted(wanted - used):
        print(f'not used: {w}')


main()
