# make -j2 in the middle of its work.
mkdir -p /tmp/b && cd /tmp/b || exit 1
for i in 1 2 3 4 5 6; do
  printf '#include <stdio.h>\n#include <stdlib.h>\nlong f%d(long n) { long s = %d; for (long i = 0; i < n; i++) s = s * 31 + i; return s; }\n' $i $i >f$i.c
done
{ for i in 1 2 3 4 5 6; do echo "long f$i(long);"; done; echo 'int printf(const char *, ...);'
  echo 'int main(void) { long s = 0;'; for i in 1 2 3 4 5 6; do echo "s ^= f$i(1000$i);"; done; echo 'printf("%ld\n", s); return 0; }'; } >main.c
printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o\n\tcc -o $@ $^\n%%.o: %%.c\n\tcc -O2 -c -o $@ $<\n' >Makefile
make -s -j2 && ./prog && ls | md5sum
