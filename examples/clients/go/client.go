// Starts a search, watches it, fetches the best kernel, handles a typed error, and cancels another search.
package main

import (
	controller "adaexplore/controller/v1"
	types "adaexplore/types/v1"
	"context"
	_ "embed"
	"fmt"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:embed controller_grpc_service_config.json
var serviceConfig string // deadlines and retries, from beside the protos

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

type token string // a file, read anew for every call, so that it may be replaced

func (file token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := os.ReadFile(string(file))
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(text))}, err
}
func (token) RequireTransportSecurity() bool { return true }

func dial(address string) *grpc.ClientConn {
	options := []grpc.DialOption{grpc.WithInsecure()} // servers without TLS are on loopback
	if ca := os.Getenv("ADAEXPLORE_CA_FILE"); ca != "" {
		options[0] = grpc.WithTransportCredentials(must(credentials.NewClientTLSFromFile(ca, "")))
		if file := os.Getenv("ADAEXPLORE_TOKEN_FILE"); file != "" {
			options = append(options, grpc.WithPerRPCCredentials(token(file)))
		}
	}
	return must(grpc.Dial(address, append(options, grpc.WithDefaultServiceConfig(serviceConfig))...))
}

// watch follows a search to its end; a broken stream is taken up again after the last event seen.
func watch(ctx context.Context, client controller.ControllerServiceClient, name string) string {
	for after, failures := int64(0), 0; ; failures++ {
		stream, err := client.WatchSearch(ctx, &controller.WatchSearchRequest{Name: name, AfterSequence: after})
		for err == nil {
			var answer *controller.WatchSearchResponse
			if answer, err = stream.Recv(); err == nil {
				after, failures = answer.Event.Sequence, 0
			}
			if node := answer.GetEvent().GetNodeRecorded().GetNode(); node != nil {
				log.Printf("step %d: %v", node.Step, node.Evaluation.GetVerdict())
			} else if search := answer.GetEvent().GetStateChanged().GetSearch(); search != nil {
				log.Print(search.State)
			}
		}
		if err == io.EOF {
			return name
		} else if status.Code(err) != codes.Unavailable || failures >= 60 {
			log.Fatal(err)
		}
		time.Sleep(time.Second)
	}
}

func main() {
	ctx := context.Background() // the service config gives unary calls their deadline
	client := controller.NewControllerServiceClient(dial(os.Args[1]))
	task := &types.Task{Name: os.Args[2], Source: string(must(os.ReadFile(os.Args[2])))}
	device := &types.DeviceSpec{Kind: types.DeviceKind_DEVICE_KIND_CPU}
	start := func(steps int) string {
		spec := &controller.SearchSpec{Task: task, Device: device, Seed: 1, Budget: &controller.Budget{MaxSteps: int32(steps)}}
		id := fmt.Sprintf("go-%d-%d", os.Getpid(), time.Now().UnixNano()) // the same in every retry
		return must(client.StartSearch(ctx, &controller.StartSearchRequest{RequestId: id, Spec: spec})).Search.Name
	}
	name := watch(ctx, client, start(must(strconv.Atoi(os.Args[3]))))
	search := must(client.GetSearch(ctx, &controller.GetSearchRequest{Name: name})).Search
	if search.BestNode != "" {
		best := must(client.GetNode(ctx, &controller.GetNodeRequest{Name: search.BestNode})).Node
		log.Printf("best: %s, %.2f times the best baseline", best.Name, search.GetBestSpeedup())
		fmt.Println(best.Candidate.Kernel.Source)
	}
	_, err := client.GetSearch(ctx, &controller.GetSearchRequest{Name: "searches/none"})
	for _, detail := range status.Convert(err).Details() { // decoded from grpc-status-details-bin
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			log.Printf("error: %v %s: %s", status.Code(err), info.Reason, status.Convert(err).Message())
		}
	}
	log.Printf("cancelled: %v", must(client.CancelSearch(ctx, &controller.CancelSearchRequest{Name: start(1000)})).Search.State)
}
