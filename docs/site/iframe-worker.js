// Search where the site is opened from a folder: browsers start no worker from a file, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.loaded = new Promise((resolve) => {
        const script = inside.document.createElement("script")
        script.src = url
        script.onload = () => resolve(inside)
        inside.document.body.append(script)
      })
    }

    async postMessage(data) {
      const inside = await this.loaded
      inside.dispatchEvent(new inside.MessageEvent("message", { data }))
    }
  }
}
