// {{name}}: a capability of Mainspring. Messages come in on standard input and go out on standard
// output, one JSON object a line.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// Message is one line.
type Message struct {
	Kind     string          `json:"kind"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata Metadata        `json:"metadata"`
}

// Metadata is what the daemon reads of a message.
type Metadata struct {
	ID        string `json:"id"`
	Timestamp int64  `json:"timestamp"`
	Causation string `json:"causation,omitempty"`
}

// Refused is a request that cannot be done: a code from 400 to 599, and why.
type Refused struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (refused Refused) Error() string { return refused.Message }

type person struct {
	Name string `json:"name"`
}

// Capability says messages and remembers whom it has met.
type Capability struct {
	out *bufio.Writer
	met []string
}

func freshID() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes[:])
}

// say says a message that cause caused.
func (capability *Capability) say(kind, typeName string, data any, cause Message) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	metadata := Metadata{ID: freshID(), Timestamp: time.Now().UnixMilli(), Causation: cause.Metadata.ID}
	line, err := json.Marshal(Message{kind, typeName, text, metadata})
	if err != nil {
		return err
	}
	if _, err := capability.out.Write(append(line, '\n')); err != nil {
		return err
	}
	return capability.out.Flush()
}

func (capability *Capability) handle(message Message) (any, error) {
	var data person
	switch message.Type {
	case "{{Type}}.Greet":
		if err := json.Unmarshal(message.Data, &data); err != nil {
			return nil, Refused{422, err.Error()}
		}
		return map[string]string{"text": fmt.Sprintf("Hello, %s!", data.Name)}, nil
	case "{{Type}}.Meet":
		if err := json.Unmarshal(message.Data, &data); err != nil {
			return nil, Refused{422, err.Error()}
		}
		capability.met = append(capability.met, data.Name)
		event := map[string]any{"name": data.Name, "met": len(capability.met)}
		if err := capability.say("event", "{{Type}}.Met", event, message); err != nil {
			return nil, err
		}
		return map[string]int{"met": len(capability.met)}, nil
	}
	return nil, Refused{404, message.Type + " is not known here"}
}

func (capability *Capability) answer(message Message) error {
	if message.Kind != "command" && message.Kind != "query" {
		return nil
	}
	data, err := capability.handle(message)
	if err == nil {
		return capability.say("reply", message.Type, data, message)
	}
	// Standard output is for messages; standard error goes to the daemon's log.
	fmt.Fprintf(os.Stderr, "cannot answer %s: %v\n", message.Type, err)
	refused, ok := err.(Refused)
	if !ok {
		refused = Refused{500, err.Error()}
	}
	return capability.say("error", message.Type, refused, message)
}

// run answers messages until the input ends: then the daemon is shutting down, or loads this
// program again.
func run(in io.Reader, out io.Writer) error {
	capability := Capability{out: bufio.NewWriter(out)}
	decoder := json.NewDecoder(in)
	for {
		var message Message
		if err := decoder.Decode(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := capability.answer(message); err != nil {
			return err
		}
	}
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
