package main

import (
	"crypto/tls"
	"net"
	"sync"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"
)

// listenFlags are where a server listens, and who may connect.
type listenFlags struct {
	address           string
	certFile, keyFile string
	htpasswd          string
	insecure          bool
}

func (f *listenFlags) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("listen", "Address and port; port 0 is any that is free.").Default("127.0.0.1:9201").StringVar(&f.address)
	cmd.Flag("tls-cert", "Certificate (PEM), with its chain.").PlaceHolder("FILE").StringVar(&f.certFile)
	cmd.Flag("tls-key", "Private key (PEM).").PlaceHolder("FILE").StringVar(&f.keyFile)
	cmd.Flag("htpasswd", "Who may read: lines of NAME:BCRYPT, as \"htpasswd -B\" writes.").PlaceHolder("FILE").StringVar(&f.htpasswd)
	cmd.Flag("insecure", "Listen on an address that is not of this machine only, without TLS or without passwords.").BoolVar(&f.insecure)
}

// open checks the flags, reads the files that they name, and listens.
func (f *listenFlags) open() (net.Listener, *guard, error) {
	if (f.certFile == "") != (f.keyFile == "") {
		return nil, nil, usageError("--tls-cert and --tls-key need each other")
	}
	addr, err := net.ResolveTCPAddr("tcp", f.address)
	if err != nil {
		return nil, nil, usageError("--listen: " + err.Error())
	}
	if safe := f.certFile != "" && f.htpasswd != ""; !addr.IP.IsLoopback() && !safe && !f.insecure {
		return nil, nil, usageError("--listen: others can reach " + f.address + ": give --tls-cert, --tls-key and --htpasswd, or --insecure")
	}
	var g *guard
	if f.htpasswd != "" {
		if g, err = readHtpasswd(f.htpasswd); err != nil {
			return nil, nil, err
		}
	}
	config, err := f.tls()
	if err != nil {
		return nil, nil, err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, nil, errors.Wrap(err, "listen")
	}
	limited := net.Listener(newLimitListener(l, maxConns))
	if config != nil {
		limited = tls.NewListener(limited, config)
	}
	return limited, g, nil
}

// tls is the configuration of TLS, nil without it.
func (f *listenFlags) tls() (*tls.Config, error) {
	if f.certFile == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return nil, errors.Wrap(err, "read certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// url is where clients find a server.
func (f *listenFlags) url(addr net.Addr) string {
	if f.certFile != "" {
		return "https://" + addr.String()
	}
	return "http://" + addr.String()
}

// limitListener accepts a connection when there are fewer than its limit. The others
// wait in the queue of the operating system.
type limitListener struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{}
}

func newLimitListener(l net.Listener, limit int) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, limit), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
