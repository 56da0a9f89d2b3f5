// A deck of slides: one at a time, by keys, buttons or a remote control. Speaker notes stand in a second window.

const slides = [...document.querySelectorAll(".slide")];
const isSpeaker = location.hash === "#speaker";
let now = 0;
let speaker = null;

function turnTo(place) {
  now = Math.max(0, Math.min(slides.length - 1, place));
  slides.forEach((slide, i) => { slide.hidden = i !== now; });
  byId("place").textContent = `${now + 1} / ${slides.length}`;
  byId("back").disabled = now === 0;
  byId("next").disabled = now === slides.length - 1;
  speaker?.postMessage({ slide: now }, "*");
}

document.body.classList.toggle("speaker", isSpeaker);
byId("back").addEventListener("click", () => turnTo(now - 1));
byId("next").addEventListener("click", () => turnTo(now + 1));
byId("notes").addEventListener("click", () => {
  speaker = open(`${location.pathname}#speaker`, "speaker");
  setTimeout(() => turnTo(now), 500);
});
addEventListener("message", (event) => { if (isSpeaker && Number.isInteger(event.data?.slide)) turnTo(event.data.slide); });
addEventListener("keydown", (event) => {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName); // there, arrows move sliders
  if (event.key === "PageDown" || (event.key === "ArrowRight" && !typing)) turnTo(now + 1);
  else if (event.key === "PageUp" || (event.key === "ArrowLeft" && !typing)) turnTo(now - 1);
  else return;
  event.preventDefault();
});
turnTo(0);
