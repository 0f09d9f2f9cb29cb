// One look at all the places of an attempt.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/report/tensorboard.h"
#include "tests/launcher/agent/metric_sources/sample.h"

using namespace muster;
using Json = nlohmann::json;

namespace {

std::string loss_record(std::uint64_t step, float value) {
  const Scalar scalar{"loss", value};
  return event_record(scalars_event(1e9, step, {&scalar, 1}));
}

MetricLook look_below(const FakeRoot& root, MetricState state = {}) {
  return look_at_metrics({{root.below("/outputs"), root.below("/runs/")}},
                         std::move(state));
}

}  // namespace

TEST_CASE("event files below the directories are told by step, under the names of their folders") {
  const FakeRoot root;
  const std::string folder = root.below("/runs/Nov27_vm");
  put_bytes(folder + "/" + event_file_name, event_sample());
  put_bytes(folder + "/both_a/events.out.tfevents.1795806027.vm.5823.1",
            sample("tensorboard/both_a/events.out.tfevents.1795806027.vm.5823.1"));
  put_bytes(root.below("/outputs/metrics.csv"), "step,val_loss\r\n4,0.5\r\n");
  const MetricLook look = look_below(root);
  REQUIRE(look.lines.size() == 8);
  const Json fourth = Json::parse(look.lines[3]), last = Json::parse(look.lines[7]);
  CHECK(fourth == Json{{"step", 4},
                       {"loss", 0.75},
                       {"Nov27_vm/Loss/train", 0.75},
                       {"Nov27_vm/lr", 0.0004},
                       {"val_loss", 0.5}});
  CHECK(Json::parse(look.lines[6]).at("Nov27_vm/both_a/both") == 1.5);
  CHECK(last.at("loss").is_null());
  CHECK(look.state.step == 8);
  const MetricLook again = look_of(text_of(look));
  CHECK(again.lines == look.lines);
  CHECK(look_below(root, again.state).lines.empty());
  CHECK(look_of("{\"state\"").lines.empty());
}

TEST_CASE("of ranks that write the same the first counts, and a second file of its own") {
  const FakeRoot root;
  const std::string name = root.below("/runs/events.out.tfevents.1795806027.vm.");
  put_bytes(name + "10.0", loss_record(1, 1));
  put_bytes(name + "11.0", loss_record(1, 9));
  put_bytes(name + "10.1", loss_record(2, 2));
  CHECK(look_below(root).lines ==
        std::vector<std::string>{R"({"loss":1.0,"step":1})", R"({"loss":2.0,"step":2})"});
}

TEST_CASE("what an earlier attempt left is not looked at") {
  const FakeRoot root;
  put_bytes(root.below("/outputs/metrics.csv"), "step,a\r\n4,0.5\r\n");
  MetricPlaces places{{root.below("/outputs")}};
  places.since_ms = 4'000'000'000'000;
  CHECK(look_at_metrics(places, {}).lines.empty());
  places.since_ms = 1;
  CHECK(look_at_metrics(places, {}).lines.size() == 1);
}

TEST_CASE("links and odd names lead nowhere, and names are told as text") {
  const FakeRoot root;
  put_bytes(root.below("/elsewhere/metrics.csv"), "step,a\r\n4,0.5\r\n");
  std::filesystem::create_directories(root.below("/outputs"));
  std::filesystem::create_symlink(root.below("/elsewhere"), root.below("/outputs/link"));
  std::filesystem::create_symlink(root.below("/elsewhere/metrics.csv"),
                                  root.below("/outputs/metrics.csv"));
  std::filesystem::create_directory(root.below("/outputs/events.out.tfevents.1"));
  put_bytes(root.below("/outputs/a/b/c/d/e/metrics.csv"), "step,a\r\n4,0.5\r\n");
  CHECK(look_below(root).lines.empty());
  put_bytes(root.below("/outputs/x\xff\n/metrics.csv"), "step,a\x1b[2J\r\n4,0.5\r\n");
  const MetricLook look = look_below(root);
  REQUIRE(look.lines.size() == 1);
  CHECK(look.lines[0].find('\x1b') == std::string::npos);
  CHECK(look_of(text_of(look)).lines == look.lines);
}

TEST_CASE("a large file is taken in piece by piece") {
  const FakeRoot root;
  std::string text = "step,loss\r\n";
  for (int i = 1; i <= 60'000; ++i) text += std::to_string(i) + ",0.5\r\n";
  put_bytes(root.below("/outputs/metrics.csv"), text);
  MetricLook look;
  std::size_t lines = 0;
  int looks = 0;
  do {
    look = look_below(root, look.state);
    lines += look.lines.size();
    ++looks;
  } while (look.is_cut);
  CHECK(lines == 60'000);
  CHECK(looks > 2);
}

TEST_CASE("a file that takes the place of one is read from its beginning") {
  const FakeRoot root;
  const std::string path = root.below("/outputs/metrics.csv");
  put_bytes(path, "step,a\r\n1,0.5\r\n2,0.5\r\n");
  MetricLook look = look_below(root);
  CHECK(look.lines.size() == 2);
  put_bytes(root.below("/outputs/new"), "step,a\r\n1,0.25\r\n2,0.25\r\n3,0.25\r\n");
  std::filesystem::rename(root.below("/outputs/new"), path);
  look = look_below(root, look.state);
  CHECK(look.lines.size() == 3);
  CHECK(look_below(root, look.state).lines.empty());
}

TEST_CASE("what belongs to neither the job's user nor the directory's is nobody's") {
  if (::geteuid() != 0) return;  // only root gives files away
  const FakeRoot root;
  for (const char* name : {"/outputs/a", "/outputs/b", "/runs/c"}) {
    put_bytes(root.below(std::string(name) + "/metrics.csv"), "step,x\r\n1,0.5\r\n");
  }
  REQUIRE(::chown(root.below("/outputs/a/metrics.csv").c_str(), 65534, 65534) == 0);
  REQUIRE(::chown(root.below("/outputs/b").c_str(), 65534, 65534) == 0);
  CHECK(look_below(root).lines == std::vector<std::string>{R"({"c/x":0.5,"step":1})"});
  REQUIRE(::chown(root.below("/outputs").c_str(), 65534, 65534) == 0);  // a mount that maps owners
  CHECK(look_below(root).lines ==
        std::vector<std::string>{R"({"a/x":0.5,"b/x":0.5,"c/x":0.5,"step":1})"});
}

TEST_CASE("names and their number have limits, the number of files has none that matters") {
  const FakeRoot root;
  std::string header = "step," + std::string(60'000, 'n'), row = "1,0.5";
  put_bytes(root.below("/outputs/metrics.csv"), header + "\n" + row + "\n");
  CHECK(look_below(root).lines.at(0).size() < 300);
  header = "step", row = "1";
  for (int i = 0; i < 1500; ++i) {
    header += ",m" + std::to_string(i);
    row += ",1";
  }
  put_bytes(root.below("/outputs/metrics.csv"), header + "\n" + row + "\n");
  put_bytes(root.below("/outputs/b/metrics.csv"), header + "\n" + row + "\n");
  CHECK(Json::parse(look_below(root).lines.at(0)).size() == 2001);
  const FakeRoot many;
  for (int i = 0; i < 1500; ++i) {
    put_bytes(many.below("/runs/" + std::to_string(i) + "/metrics.csv"), "step,a\n1,1\n");
  }
  const MetricLook look = look_below(many);
  CHECK(look.state.places.size() == 1500);
  CHECK(Json::parse(look.lines.at(0)).size() == 1501);
  CHECK(look_below(many, look.state).lines.empty());
}

TEST_CASE("no line is lost at 10,000 a second of one step each") {
  const FakeRoot root;
  std::string bytes;
  for (std::uint64_t step = 1; step <= 10'000; ++step) bytes += loss_record(step, 0.5F);
  const std::string path = root.below("/runs/events.out.tfevents.1795806027.vm.10.0");
  MetricLook look;
  std::size_t lines = 0;
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t part = 1; part <= 10; ++part) {
    put_bytes(path, bytes.substr(0, bytes.size() * part / 10));
    do {
      look = look_below(root, look.state);
      lines += look.lines.size();
    } while (look.is_cut);
  }
  CHECK(lines == 10'000);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds{10});
}
