#!/bin/sh
# An agent of curl and jq: it asks, computes what the model wants computed, shows it the result and asks again.
TOOL='{type: "function", function: {name: "calculator", parameters: {type: "object",
  properties: {expression: {type: "string"}}, required: ["expression"]}}}'
ask() { jq "{model: \"policy\", messages: ., tools: [$TOOL]}" messages | curl --silent --fail --data @- \
  --header "Authorization: Bearer $OPENAI_API_KEY" "$OPENAI_BASE_URL/chat/completions" | jq '.choices[0].message'; }
compute() { sum=$(jq -r '.function.arguments | fromjson.expression' call | tr -cd '0-9+*/()-'); echo $(($sum)); }

jq .prompt "$TRAINYARD_PROBLEM" > messages
while ask > said && jq --exit-status '.tool_calls[0] // empty' said > call; do
  result=$(compute 2> errors) || result="error: no sum"
  jq --slurp --arg result "$result" '.[0] + [.[1], {role: "tool", tool_call_id: .[2].id, content: $result}]' \
    messages said call > next && mv next messages
done
jq --compact-output '{answer: .content}' said
