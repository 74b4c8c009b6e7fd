rm -rf /tmp/cmake_ninja && cp -r "${TEST_SRC:-/usr/src}/zlib" /tmp/cmake_ninja && cd /tmp/cmake_ninja || exit 1
mkdir b && cd b && cmake -G Ninja -DCMAKE_BUILD_TYPE=Release .. >log 2>&1; echo "cmake $?"
ninja -j2 >log2 2>&1; echo "ninja $?"; ctest 2>&1 | grep 'tests passed'; md5sum libz.a; ninja 2>&1 | tail -1; cd / && rm -rf /tmp/cmake_ninja
