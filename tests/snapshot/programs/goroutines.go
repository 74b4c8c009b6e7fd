// Goroutines that compute, pass values through channels and wait for timers; a server and its clients on loopback; a child process.
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"time"
)

func compute(n int, results chan<- string) {
	h := sha256.New()
	for i := 0; i < 100000; i++ {
		fmt.Fprintf(h, "%d %d", n, i)
	}
	results <- fmt.Sprintf("%x", h.Sum(nil))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		must(err)
		go func() {
			defer conn.Close()
			for in := bufio.NewScanner(conn); in.Scan(); {
				fmt.Fprintln(conn, strings.ToUpper(in.Text()))
			}
		}()
	}
}

func main() {
	results := make(chan string)
	for i := 0; i < 4; i++ {
		go compute(i, results)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go serve(listener)
	ticker := time.NewTicker(3 * time.Millisecond)
	var lock sync.Mutex
	var answers []string
	var clients sync.WaitGroup
	for c := 0; c < 3; c++ {
		clients.Add(1)
		go func(c int) {
			defer clients.Done()
			conn, err := net.Dial("tcp", listener.Addr().String())
			must(err)
			defer conn.Close()
			in := bufio.NewReader(conn)
			for i := 0; i < 30; i++ {
				<-ticker.C
				fmt.Fprintf(conn, "client %d asks %d\n", c, i)
				text, err := in.ReadString('\n')
				must(err)
				lock.Lock()
				answers = append(answers, text)
				lock.Unlock()
			}
		}(c)
	}
	for i := 0; i < 8; i++ {
		text, err := exec.Command("sh", "-c", fmt.Sprintf("echo $((%d * 3)) | cat", i)).CombinedOutput()
		must(err)
		lock.Lock()
		answers = append(answers, string(text))
		lock.Unlock()
	}
	clients.Wait()
	for i := 0; i < 4; i++ {
		answers = append(answers, <-results)
	}
	sort.Strings(answers)
	fmt.Printf("%d %x\n", len(answers), sha256.Sum256([]byte(strings.Join(answers, " "))))
}
