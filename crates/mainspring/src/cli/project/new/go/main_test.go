// Tests {{name}} as the daemon sees it: `go test` in this folder.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// ask returns what the program says to a request.
func ask(t *testing.T, kind, typeName, data string) []string {
	t.Helper()
	line := fmt.Sprintf(`{"kind":%q,"type":%q,"data":%s,"metadata":{"id":"q1","timestamp":0}}`, kind, typeName, data)
	var out bytes.Buffer
	if err := run(strings.NewReader(line+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var message Message
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatal(err)
		}
		if message.Metadata.Causation != "q1" {
			t.Errorf("it does not name its cause: %s", line)
		}
		said = append(said, fmt.Sprintf("%s %s %s", message.Kind, message.Type, message.Data))
	}
	return said
}

func expect(t *testing.T, said []string, expected ...string) {
	t.Helper()
	if strings.Join(said, "\n") != strings.Join(expected, "\n") {
		t.Errorf("expected %q, got %q", expected, said)
	}
}

func TestPeopleAreGreetedByName(t *testing.T) {
	expect(t, ask(t, "query", "{{Type}}.Greet", `{"name":"Ada"}`), `reply {{Type}}.Greet {"text":"Hello, Ada!"}`)
}

func TestWhoWasMetIsToldAndCounted(t *testing.T) {
	expect(t, ask(t, "command", "{{Type}}.Meet", `{"name":"Ada"}`),
		`event {{Type}}.Met {"met":1,"name":"Ada"}`, `reply {{Type}}.Meet {"met":1}`)
}

func TestWhatIsNotKnownIsAnError(t *testing.T) {
	said := ask(t, "query", "{{Type}}.Unknown", `{}`)
	if len(said) != 1 || !strings.HasPrefix(said[0], `error {{Type}}.Unknown {"code":404`) {
		t.Errorf("got %q", said)
	}
}
