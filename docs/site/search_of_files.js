// The search runs in a worker. A page that is opened as a file may not start one from another file, so it starts it from
// its text.
if (location.protocol === "file:") {
  const text = "THE SEARCH"
  const Started = window.Worker
  window.Worker = function () {
    return new Started(URL.createObjectURL(new Blob([text], { type: "text/javascript" })))
  }
}
