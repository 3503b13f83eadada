// Chromium starts no Worker from a disk, and the search is one. There it gets a frame, which takes the same messages.
// (The plugin "offline" would fetch such a thing from the network; it looks for the name of this file in mkdocs.yml.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = new URL(url, location).href;
      this.ready = new Promise((begin) => script.addEventListener("load", begin));
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
