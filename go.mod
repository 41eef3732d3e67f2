module github.com/seed347100a3/tsdb

go 1.26.0
