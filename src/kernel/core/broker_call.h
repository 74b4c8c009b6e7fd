/* Requests to the broker (wire/broker.h): a slot of R is filled, the doorbell rung, the reply copied once. */
#ifndef HARENA_CORE_BROKER_CALL_H
#define HARENA_CORE_BROKER_CALL_H

#include "wire/broker.h"

struct broker_args {
    u32 op, mount, handle;
    u64 arg[4];
    const void *data; /* sent */
    u32 size;
    const void *data2; /* sent behind it */
    u32 size2;
    void *reply; /* up to reply_max bytes of the answer's data */
    u32 reply_max;
    /* out: */
    u32 reply_size;
    u64 value;
};

/* The broker's result: >= 0 or negative errno. Sleeps while no slot is free or the answer is late. */
long broker_call(struct broker_args *a);
void broker_notify(u32 op, u64 a0, u64 a1, u64 a2, const void *data, size_t size);
void broker_call_reset(void); /* R is another one */
void broker_call_forget(u32 host_tid); /* a carrier that was killed: slots of its calls that were answered are free */
void broker_call_event(void); /* service thread: late answers may have come */

#endif
