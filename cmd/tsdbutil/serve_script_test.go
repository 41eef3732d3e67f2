package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serverKey is under what a script finds its server.
type serverKey struct{}

// servedProcess is a server that a script has started.
type servedProcess struct {
	cmd *exec.Cmd
	err bytes.Buffer
}

// serving ARGS... runs tsdbutil serve ARGS... and sets URL and PORT when it is ready.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	p, ok := ts.Value(serverKey{}).(*servedProcess)
	if neg || !ok || p.cmd != nil {
		ts.Fatalf("usage: serving ARGS..., one at a time")
	}
	p.err.Reset()
	cmd := exec.Command(programPath(ts), append([]string{"serve"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Stderr = &p.err
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p.cmd = cmd
	ts.Defer(func() {
		if p.cmd == cmd {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			p.cmd = nil
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		ts.Fatalf("the server does not get ready: %v: %s", err, &p.err)
	}
	at := strings.TrimSuffix(strings.TrimSpace(line), readPath)
	ts.Setenv("URL", at)
	ts.Setenv("PORT", at[strings.LastIndex(at, ":")+1:])
}

// get URL STATUS [TEXT] asks for a page without any credentials.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: get URL STATUS [TEXT]")
	}
	res, err := http.Get(args[0])
	ts.Check(err)
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	if strconv.Itoa(res.StatusCode) != args[1] || len(args) > 2 && strings.TrimSpace(string(body)) != args[2] {
		ts.Fatalf("%s: %s: %s", args[0], res.Status, body)
	}
}

// ended ends the server as a service manager does. It must be quiet, and end with code 0.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	p, ok := ts.Value(serverKey{}).(*servedProcess)
	if neg || !ok || p.cmd == nil || len(args) > 0 {
		ts.Fatalf("usage: ended, after serving")
	}
	cmd := p.cmd
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	p.cmd = nil
	if err != nil {
		ts.Fatalf("the server ended with %v: %s", err, &p.err)
	}
	for line := range strings.Lines(p.err.String()) {
		if !strings.Contains(line, "TLS handshake error") { // a client that does not trust us
			ts.Fatalf("the server says %s", line)
		}
	}
}

// programPath is where the scripts' commands are.
func programPath(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, "tsdbutil"); exists(path) {
			return path
		}
	}
	ts.Fatalf("tsdbutil is not in PATH")
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// certificate CERT KEY makes a certificate for 127.0.0.1.
func certificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "PRIVATE KEY", Bytes: private}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(block), 0o600))
	}
}
