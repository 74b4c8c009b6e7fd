/* Kernel state. All mutable kernel data lies in the segment K at a fixed address, shared by every stub of
 * a sandbox: the image's .data and .bss are empty (the build checks it). A global of a module is declared
 *
 *     KSTATE struct pid_table pids;
 *
 * and starts as zeroes; there are no initialisers. Pointers to K objects are valid in every process and after
 * a restore. K must hold no pointer to a stack, a carrier or a host resource. */
#ifndef HARENA_CORE_KSTATE_H
#define HARENA_CORE_KSTATE_H

/* KSTATE_LARGE: tables of a kilobyte and more, of which most sandboxes touch little. They lie behind the rest, so that what every
 * sandbox touches fills few pages. */
#ifdef HARENA_FAKE_HOST
#define KSTATE
#define KSTATE_LARGE
#else
#define KSTATE __attribute__((section(".kstate,\"aw\",@nobits#")))
#define KSTATE_LARGE __attribute__((section(".kstate.large,\"aw\",@nobits#")))
#endif

#endif
