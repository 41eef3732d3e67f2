module github.com/seed347100a3/tsdb/compat/receiver

go 1.26.0

tool github.com/prometheus/complicance/remotewrite2

require github.com/stretchr/testify v1.12.1

require (
	github.com/prometheus/complicance/remotewrite2 v0.0.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/prometheus/complicance/remotewrite2 => github.com/prometheus/compliance/remotewrite/receiver v0.0.0-20260806071727-67b8327a2e93
