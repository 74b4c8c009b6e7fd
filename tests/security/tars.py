"""tars.py DIR: hostile archives, one a case. What an image builder must refuse, or build without touching anything else."""
import io
import os
import sys
import tarfile

out = sys.argv[1]


def add(t, name, kind=tarfile.REGTYPE, data=b'', link='', **k):
    i = tarfile.TarInfo(name)
    i.type, i.size, i.linkname = kind, len(data), link
    for field, value in k.items():
        setattr(i, field, value)
    t.addfile(i, io.BytesIO(data) if data else None)


def tar(name, *entries):
    with tarfile.open(os.path.join(out, name), 'w', format=tarfile.PAX_FORMAT) as t:
        for args, k in entries:
            add(t, *args, **k)


def e(*args, **k):
    return args, k


def raw(name, data):
    with open(os.path.join(out, name), 'wb') as f:
        f.write(data)


tar('dotdot', e('../../evil', data=b'x'))
tar('dotdot-middle', e('a/../../evil', data=b'x'))
tar('absolute', e(os.path.abspath(out) + '/evil', data=b'x'))
tar('through-link', e('l', tarfile.SYMTYPE, link=os.path.abspath(out)), e('l/evil', data=b'x'))
tar('hardlink-out', e('h', tarfile.LNKTYPE, link='/etc/passwd'))
tar('hardlink-dotdot', e('h', tarfile.LNKTYPE, link='../../../../../../etc/passwd'))
tar('hardlink-directory', e('d', tarfile.DIRTYPE), e('h', tarfile.LNKTYPE, link='d'))
tar('too-deep', e('/'.join(['d'] * 1500) + '/x', data=b'x'))
tar('long-name', e('n' * 3000, data=b'x'))
tar('escape-name', e('ok\x1b]0;title\x07\x1b[2J/../x', data=b'x'))
tar('many-xattrs', e('x', data=b'x', pax_headers={f'SCHILY.xattr.user.{i}': 'v' * 60000 for i in range(10)}))
tar('root-is-file', e('.', data=b'x'))
tar('sparse-exbibyte', e('GNUSparseFile.0/s', data=b'1\n%d\n1\n' % (1 << 60) + b'\0' * 500, pax_headers={
    'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 's', 'GNU.sparse.realsize': str(1 << 62)}))
big = tarfile.TarInfo('big')
big.size = 8 ** 11 - 1
raw('size-lies', big.tobuf(tarfile.USTAR_FORMAT) + b'x' * 512)
raw('filter-lrzip', b'LRZI' + bytes(100))
raw('filter-grzip', b'GRZipII\x00\x02\x04:)' + bytes(100))
raw('filter-lzop', b'\x89LZO\x00\r\n\x1a\n' + bytes(100))
