d=$(mktemp -d) && cp -r "${TEST_SRC:-/usr/src}/zlib" $d/z && cd $d/z || exit 1
./configure >log 2>&1; echo "configure $?"; make -j2 >log2 2>&1; echo "make $?"; make test 2>&1 | grep -i 'test ok'
md5sum libz.a zlib.h; ls -l libz.so.1 | cut -c1; make -s clean; cd / && rm -rf $d
