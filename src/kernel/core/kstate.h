/* Kernel state. All mutable kernel data lies in the segment K at a fixed address, shared by every stub of
 * a sandbox: the image's .data and .bss are empty (the build checks it). A global of a module is declared
 *
 *     KSTATE struct pid_table pids;
 *
 * and starts as zeroes; there are no initialisers. Pointers to K objects are valid in every process and after
 * a restore. K must hold no pointer to a stack, a carrier or a host resource. */
#ifndef HARENA_CORE_KSTATE_H
#define HARENA_CORE_KSTATE_H

#ifdef HARENA_FAKE_HOST
#define KSTATE
#else
#define KSTATE __attribute__((section(".kstate,\"aw\",@nobits#")))
#endif

#endif
