# Random numbers of a copy: what differs by itself, and what is seeded anew when /run/harena/generation has changed.
import os
import random
import secrets
import ssl
import sys
import uuid


def generation():
    with open('/run/harena/generation') as f:
        return f.read()


mine = generation()
random.random(), ssl.RAND_bytes(8), os.urandom(8), uuid.uuid4()
print('up', flush=True)
sys.stdin.readline()
if generation() != mine:
    random.seed()
    ssl.RAND_add(os.urandom(32), 32)
print(os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4().hex, random.SystemRandom().getrandbits(64), random.getrandbits(64), ssl.RAND_bytes(8).hex(), sep='\n')
