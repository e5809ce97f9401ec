// Sends a request to a Convoke service, and shows what happens until it is answered. Needs nothing but fetch.
//
//     tsc --module nodenext --target es2022 ask.mts && node ask.mjs http://localhost:8080 "remind me to buy milk"

const [service, message] = process.argv.slice(2);
const token = process.env.CONVOKE_TOKEN;
const authorization: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};

async function call(path: string, headers: Record<string, string> = {}, body?: object): Promise<Response> {
  const response = await fetch(`${service}/api/v1/tasks${path}`, {
    method: body ? "POST" : "GET",
    headers: { ...authorization, "content-type": "application/json", ...headers },
    body: body && JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

// The same key gives the same task, however often the request is sent.
const request = { message, mode: "background" };
let task = await (await call("", { "idempotency-key": crypto.randomUUID() }, request)).json();
for (let last = "", over = false; !over; ) {
  try {
    const events = await call(`/${task.id}/events`, { "last-event-id": last });
    let text = "";
    for await (const chunk of events.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (text + chunk).split("\n");
      text = lines.pop()!;
      for (const [, field, value] of lines.map((line) => line.match(/^(event|id): (.*)$/) ?? [])) {
        if (field === "id") last = value;
        if (field === "event") console.error(value);
        over ||= field === "event" && ["ended", "question_asked"].includes(value);
      }
    }
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 1000)); // Cut off: go on after the last event.
  }
}
task = await (await call(`/${task.id}`)).json();
console.log(task.answer?.text ?? task.questions);
