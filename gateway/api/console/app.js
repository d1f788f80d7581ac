document.querySelector("main").textContent = "Holdgate";
