// Browsers start no worker from file://. The search of the site needs one, so there a hidden frame does a worker's job.
// The search's own script looks for the name IFrameWorker and for a script element in the frame.
"use strict";
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.scope = this.frame.contentWindow;
      this.waiting = []; // messages that came before the script was loaded
      this.scope.postMessage = data => this.deliver(this, MessageEvent, data);
      this.scope.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
      this.load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach(data => this.postMessage(data));
      }, () => this.dispatchEvent(new ErrorEvent("error", { message: `${url} could not be loaded` })));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(this.scope, this.scope.MessageEvent, data);
    }

    terminate() {
      this.frame.remove();
    }

    // Later, as a worker's messages do: the sender must not run the receiver's code.
    deliver(to, Event, data) {
      setTimeout(() => {
        const event = new Event("message", { data });
        to.dispatchEvent(event);
        if (to === this && this.onmessage) this.onmessage(event);
      });
    }

    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.scope.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = loaded;
        script.onerror = failed;
        this.scope.document.body.append(script);
      });
    }
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
