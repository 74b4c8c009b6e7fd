"""What a model might have written: it does its job, and then looks around. Runs inside the sandbox."""
import hashlib, os, socket, subprocess, sys, time


def job():
    sieve = bytearray([1]) * 200_000
    for i in range(2, 448):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, 200_000, i)))
    primes = [i for i in range(2, 200_000) if sieve[i]]
    words = subprocess.run(["sh", "-c", "printf 'one\\ntwo\\nthree\\n' | sort | tr '\\n' ' '"], capture_output=True, text=True).stdout
    return f"{len(primes)} primes below 200000, the last is {primes[-1]}; a pipeline said: {words.strip()}; " \
           f"sha256 {hashlib.sha256(repr(primes).encode()).hexdigest()[:16]}"


def connect(host, port):
    s = socket.create_connection((host, port), timeout=2)
    s.close()
    return f"connected to {host}:{port}"


def attempt(what, action):
    try:
        result = action()
    except Exception as e:
        print(f"  {what:<44} refused   {type(e).__name__}: {e}")
        return True
    print(f"  {what:<44} GOT IT    {str(result)[:60]!r}")
    return False


def main():
    start = time.monotonic()
    print("the job:", job())
    print(f"          done in {time.monotonic() - start:.2f} s, as pid {os.getpid()} uid {os.getuid()} on {os.uname().nodename}")
    home = sys.argv[1]
    with open("scratch.txt", "w") as f:
        f.write("thrown away with the sandbox")
    print("then it looked around:")
    refused = [
        attempt("list ~/.ssh", lambda: os.listdir(home + "/.ssh")),
        attempt("read ~/.ssh/id_rsa", lambda: open(home + "/.ssh/id_rsa").read()),
        attempt("read /etc/shadow", lambda: open("/etc/shadow").read()),
        attempt("read the .env of this directory", lambda: open(".env").read() or (_ for _ in ()).throw(PermissionError("empty"))),
        attempt("list other users' files in /home", lambda: os.listdir("/home")),
        attempt("signal the process that started the demo", lambda: os.kill(int(sys.argv[2]), 0)),
        attempt("connect to 1.1.1.1:443", lambda: connect("1.1.1.1", 443)),
        attempt("connect to the cloud's metadata service", lambda: connect("169.254.169.254", 80)),
        attempt("talk to a host service on localhost", lambda: connect("127.0.0.1", int(sys.argv[3]))),
        attempt("read the disk", lambda: open("/dev/vda", "rb").read(16)),
        attempt("load a kernel module", lambda: open("/proc/sys/kernel/modprobe", "w").write("x")),
    ]
    print(f"{sum(refused)} of {len(refused)} attempts refused; scratch.txt exists only in here")
    return 0 if all(refused) else 1


sys.exit(main())
