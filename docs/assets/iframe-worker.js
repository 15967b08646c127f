// Browsers start no workers for pages opened from disk. There, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script src="${url}"><\/script>`;
      this.scope = new Promise(resolve => {
        frame.onload = () => {
          const scope = frame.contentWindow;
          scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
          scope.importScripts = async (...urls) => {
            for (const each of urls) await FrameWorker.load(scope, each);
          };
          resolve(scope);
        };
      });
      document.body.append(frame);
    }

    static load(scope, url) {
      return new Promise((resolve, reject) => {
        const script = scope.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        scope.document.body.append(script);
      });
    }

    async postMessage(data) {
      (await this.scope).dispatchEvent(new MessageEvent("message", { data }));
    }
  }
  window.Worker = window.IFrameWorker = FrameWorker;
}
