d=$(mktemp -d) && cd $d
printf '#include <stdio.h>\nint main(){printf("hi %%d\\n",42);return 3;}\n' > a.c
gcc -O2 a.c -o a && ./a; echo $?
printf '#include <iostream>\nint main(){std::cout<<"cpp\\n";}\n' > b.cc
g++ b.cc -o b && ./b; printf 'all: x y\nx:\n\t@echo x\ny:\n\t@echo y\n' > Makefile; make -s -j2 | sort; cd /; rm -r $d
