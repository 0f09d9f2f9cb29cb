#include "cli/terminal/progress_line.h"

#include "cli/terminal/escape.h"
#include "tests/catch.h"

using namespace muster;

namespace {

ProgressNumbers numbers_of(const char* json) {
  ProgressNumbers numbers;
  read_metrics_line(json, numbers);
  return numbers;
}

const char* const full =
    R"({"step": 120, "total_steps": 1000, "loss": 2.34567, "tokens_per_s": 123456})";

}  // namespace

TEST_CASE("the progress line never exceeds the terminal, at any width") {
  for (int width = 20; width <= 200; ++width) {
    const std::string line = progress_line("Running 3s", numbers_of(full), Seconds{75}, width);
    CAPTURE(width, line);
    CHECK(text_width(line) < width);
    CHECK(line.find("step 120/1000") != std::string::npos);
    const std::string label = progress_line("Provisioning 1h 20m", {}, std::nullopt, width);
    CHECK(text_width(label) < width);
  }
}

TEST_CASE("a wide terminal shows bar, step, loss, time left and rate") {
  CHECK(
      progress_line("", numbers_of(full), Seconds{75}, 100) ==
      "[====>                         ]  step 120/1000  loss 2.3457  ETA 1m 15s  123.5k tokens/s");
}

TEST_CASE("without steps the label stands alone") {
  CHECK(progress_line("Queued 2.0s", {}, std::nullopt, 80) == "Queued 2.0s");
}

TEST_CASE("a malformed metrics line changes nothing") {
  ProgressNumbers numbers = numbers_of(full);
  for (const char* bad :
       {"", "{", "[]", "null", R"({"step": "x", "loss": null})", R"({"step": 1e300})", "\xff"}) {
    read_metrics_line(bad, numbers);
    CHECK(numbers.step == 120);
    CHECK(numbers.loss == Approx(2.34567));
  }
}

TEST_CASE("the time left follows the rate seen and starts anew when steps go back") {
  StepRate rate;
  ProgressNumbers numbers = numbers_of(full);
  rate.saw(100, from_ms(0));
  CHECK_FALSE(rate.time_left(numbers));
  rate.saw(120, from_ms(20000));
  CHECK(rate.time_left(numbers) == Milliseconds{880000});
  rate.saw(50, from_ms(30000));
  CHECK_FALSE(rate.time_left(numbers));
  rate.saw(60, from_ms(31000));
  CHECK(rate.time_left(numbers) == Milliseconds{94000});
}

TEST_CASE("more steps than announced still draw a full bar") {
  const std::string line =
      progress_line("", numbers_of(R"({"step": 20, "total_steps": 10})"), std::nullopt, 60);
  CHECK(line.find("[==============================]") != std::string::npos);
}
