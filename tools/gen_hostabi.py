#!/usr/bin/env python3
"""gen_hostabi.py [--check]: the table of reachable host calls in docs/HOSTABI.md and docs/SECURITY.md from src/host/hostabi.tbl: what
stands between the lines `<!-- hostabi -->` and `<!-- end -->`. With --check: exit status 1 when they differ."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
ARGUMENTS = {
    'mmap': 'addr size prot flags fd offset', 'munmap': 'addr size', 'mprotect': 'addr size prot', 'mremap': 'old old_size new_size flags new',
    'madvise': 'addr size advice', 'pwrite64': 'fd data size offset', 'futex': 'word op value timeout word2 value3', 'clone': 'flags stack', 'tgkill': 'pid tid signal',
    'clock_gettime': 'clock', 'sigaltstack': 'new old', 'set_robust_list': 'head size', 'exit': 'code', 'exit_group': 'code',
}


def read_table():
    """(call, alternatives, comment) in order; a comment belongs to the call below it."""
    calls, comment = [], []
    for line in open(os.path.join(ROOT, 'src/host/hostabi.tbl')):
        line = line.rstrip()
        if line.startswith('# ----') or not line:
            comment = []
        elif line.startswith('#'):
            comment.append(line[1:].strip())
        elif line[0].isspace():
            calls[-1][1].append(line.strip())
        else:
            calls.append((line, [], ' '.join(comment)))
            comment = []
    return calls


def words(call, test):
    names = ARGUMENTS.get(call, '').split()
    test = re.sub(r'\ba([0-5])\b', lambda m: names[int(m[1])] if int(m[1]) < len(names) else m[0], test)
    test = test.replace('flags & 0x23 ==', 'kind')
    test = re.sub(r'(\w+) range (\S+) (\S+)', r'\2 ≤ \1 < \3', test)
    test = re.sub(r'(\w+) bits (\S+)', r'\1 within \2', test).replace('<=', '≤')
    test = re.sub(r'(\w+) in (.+)', lambda m: f'{m[1]} one of ' + ', '.join(m[2].split()), test)
    return test.replace('|', '\\|')


def table():
    calls = read_table()
    out = [f'{len(calls)} calls:', '', '| call | allowed when | why |', '|---|---|---|']
    for call, alternatives, comment in calls:
        cells = ['any' if a == 'any' else ', '.join(words(call, t.strip()) for t in a.split(';')) for a in alternatives]
        out.append(f'| {call} | {"; or ".join(cells)} | {comment} |')
    return '\n'.join(out)


def main():
    wrong = 0
    for name in ('docs/HOSTABI.md', 'docs/SECURITY.md'):
        path = os.path.join(ROOT, name)
        text = open(path).read()
        new, n = re.subn(r'(<!-- hostabi -->\n).*?(<!-- end -->)', lambda m: m[1] + table() + '\n' + m[2], text, flags=re.S)
        if name.endswith('HOSTABI.md') and not n:
            sys.exit(f'{name}: no place for the table')
        if new != text and '--check' in sys.argv:
            print(f'{name} differs from src/host/hostabi.tbl: run tools/gen_hostabi.py')
            wrong = 1
        elif new != text:
            open(path, 'w').write(new)
    sys.exit(wrong)


main()
