/** The gateway as this page reaches it: by which mount, with which key, and which models it has. */
import { load, save } from "./storage.js";

const MOUNTS = ["llm/v1", "v1"]; // a page's own, and the one that is there whatever the operator calls the other

export class Gateway {
  #mount = MOUNTS[0];
  key = load("key") ?? load("key", "sessionStorage");

  /** Where messages go. Relative, as a proxy may serve everything below a path of its own. */
  get url() {
    return `${this.#mount}/messages`;
  }

  /** `lasting`: this browser keeps it; otherwise this tab does. null forgets it. */
  useKey(key, lasting = false) {
    this.key = key;
    save("key", lasting ? key : null);
    save("key", lasting ? null : key, "sessionStorage");
  }

  /** `{ names, why, status }`: where there are no names, why. `status` is 0 where nothing answered. */
  async models() {
    for (const mount of MOUNTS) {
      this.#mount = mount;
      let answer;
      try {
        answer = await fetch(`${mount}/models`, { headers: this.key ? { "x-api-key": this.key } : {} });
      } catch {
        return { names: [], why: "The gateway cannot be reached. Is it running, and are you online?", status: 0 };
      }
      if (answer.status !== 404) return { ...(await named(answer)), status: answer.status };
    }
    return { names: [], why: "What answers here is not Slotline.", status: 404 };
  }
}

async function named(answer) {
  const body = await answer.json().catch(() => null);
  if (!answer.ok) return { names: [], why: body?.error?.message ?? `It answered with status ${answer.status}.` };
  const names = (body?.data ?? []).map((model) => model.id);
  return { names, why: names.length ? "" : "The gateway is there, but no server behind it is, or none has a model." };
}
