/* What the broker's boot mail said: fixed from the first program on. Filled by boot/boot.c. */
#ifndef HARENA_CORE_CONFIG_H
#define HARENA_CORE_CONFIG_H

#include "wire/broker.h"

const struct mail_boot *boot_config(void);
const u8 *boot_id(void); /* 16 random bytes */

#endif
