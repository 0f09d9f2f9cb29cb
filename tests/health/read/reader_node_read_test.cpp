#include "health/read/node_reader.h"

#include "health/read/files.h"
#include "tests/catch.h"

using namespace muster;
using namespace std::chrono_literals;
using Paths = std::vector<std::string>;

namespace {

NodeReadRequest a_request(Paths sources, bool with_gpus = false) {
  NodeReadRequest request;
  request.sources = std::move(sources);
  if (with_gpus) request.gpus.emplace();
  return request;
}

void read_file(NodeRead& read, const std::string& path, const std::string& text = {}) {
  CHECK(read.take(FileBegins{path}));
  CHECK(read.take(FileIsRead{path, {text, {}, false}}));
}

}  // namespace

TEST_CASE("the next helper reads what is left, and lists directories again") {
  NodeRead read(a_request({"/a", "/p/*/x", "/p/*/y", "/q"}));
  read_file(read, "/a", "1");
  read_file(read, "/p");
  read_file(read, "/p/1/x", "2");
  read.take(FileBegins{"/p/2/x"});
  CHECK(read.at_hand() == "/p/2/x");
  read.unanswered(5s);
  const auto command = read.command();
  REQUIRE(command);
  CHECK(command->request.sources == Paths{"/p/*/x", "/p/*/y", "/q"});
  CHECK(command->skip.contains("/p/1/x"));
  CHECK(command->skip.contains("/p/2/x"));
  CHECK_FALSE(command->skip.contains("/p"));
  CHECK(read.readings().files.reading("/p/2/x").error == "no answer within 5 s");
  CHECK(did_not_answer(read.readings().files.reading("/p/2/x")));
}

TEST_CASE("a source without stars that hangs is done with") {
  NodeRead read(a_request({"/a", "/b"}));
  read_file(read, "/a", "1");
  read.take(FileBegins{"/b"});
  read.unanswered(5s);
  CHECK_FALSE(read.command());
}

TEST_CASE("what was not reached says because of what, and what was read stays") {
  NodeRead read(a_request({"/a", "/p/*", "/q/*", "/z"}, true));
  read_file(read, "/a", "1");
  read_file(read, "/p");
  read_file(read, "/p/1", "2");
  read.take(FileBegins{"/p/2"});
  read.unanswered(5s);
  read.give_up_unreached();
  CHECK(read.is_over());
  const SourceFiles& files = read.readings().files;
  CHECK(files.text("/a") == "1");
  CHECK(files.text("/p/1") == "2");
  for (const char* place : {"/p", "/q", "/z"})
    CHECK(files.reading(place).error == "not reached: /p/2: no answer within 5 s");
  CHECK(did_not_answer(files.reading("/p/2")));
  CHECK_FALSE(did_not_answer(files.reading("/q")));
  CHECK_FALSE(read.readings().gpus->is_complete());
  CHECK(read.readings().gpus->stopped() == "not reached: /p/2: no answer within 5 s");
}

TEST_CASE("a directory that does not answer hides its own sources alone") {
  NodeRead read(a_request({"/p/*", "/q"}));
  read.take(FileBegins{"/p"});
  read.unanswered(5s);
  REQUIRE(read.command());
  CHECK(read.command()->skip.contains("/p"));
  read.give_up("not read");
  CHECK(did_not_answer(read.readings().files.reading("/p")));
  CHECK(read.readings().files.reading("/q").error == "not read");
}

TEST_CASE("a driver that was asked is not asked again") {
  NodeRead read(a_request({"/a"}, true));
  read_file(read, "/a", "1");
  CHECK(read.command()->request.gpus);
  read.take(FilesOver{});
  CHECK(read.has_files());
  REQUIRE(read.command());
  CHECK(read.command()->request.sources.empty());
  read.take(GpuCallBegins{"nvmlInit"});
  CHECK(read.is_call());
  read.take(GpuIsRead{"init", {0, "ok"}});
  read.take(GpuCallBegins{"gpu0.nvmlDeviceGetName"});
  read.unanswered(10s);
  CHECK_FALSE(read.command());
  CHECK(read.readings().gpus->calling() == "gpu0.nvmlDeviceGetName");
  CHECK(read.readings().gpus->stopped().empty());
  CHECK(read.readings().gpus->text("init") == "ok");
}

TEST_CASE("a helper that died says how, and where") {
  NodeRead read(a_request({"/a", "/b"}, true));
  read.take(FileBegins{"/a"});
  read.helper_ended("the helper died of signal 9");
  CHECK(read.readings().files.reading("/a").error == "the helper died of signal 9");
  CHECK(read.command()->request.sources == Paths{"/b"});
  read_file(read, "/b", "2");
  read.take(FilesOver{});
  read.take(GpuCallBegins{"nvmlInit"});
  read.helper_ended("the helper died of signal 11");
  CHECK(read.readings().gpus->stopped() == "the helper died of signal 11 in nvmlInit");
  CHECK(read.readings().files.text("/b") == "2");
  CHECK(read.readings().files.all().size() == 2);  // a call of the driver is no file
  CHECK_FALSE(read.command());
}

TEST_CASE("a helper that died at no file or call costs none") {
  NodeRead read(a_request({"/a", "/b"}, true));
  read_file(read, "/a", "1");
  read.helper_ended("the helper died of signal 9");
  CHECK(read.readings().files.all().size() == 1);
  CHECK(read.command()->request.sources == Paths{"/a", "/b"});
  read.take(FilesOver{});
  read.helper_ended("the helper died of signal 9");
  CHECK(read.command()->request.gpus);  // none of its calls had begun
  read.take(FilesOver{});
  read.take(GpuCallBegins{"nvmlInit"});
  read.take(GpuIsRead{"init", {0, "ok"}});
  read.helper_ended("the helper died of signal 11");
  CHECK(read.readings().gpus->stopped() == "the helper died of signal 11");
}

TEST_CASE("the order of what a helper says is not left to it") {
  NodeRead read(a_request({"/a"}, true));
  CHECK_FALSE(read.take(ReadOver{}));
  CHECK_FALSE(read.take(GpuCallBegins{"nvmlInit"}));
  CHECK_FALSE(read.take(GpuIsRead{"init", {0, "ok"}}));
  CHECK_FALSE(read.take(EventsKnown{}));
  CHECK(read.take(FilesOver{}));
  CHECK_FALSE(read.take(FilesOver{}));
  CHECK_FALSE(read.take(FileBegins{"/a"}));
  CHECK_FALSE(read.take(FileIsRead{"/a", {}}));
  CHECK(read.take(ReadOver{}));
  CHECK(read.is_over());

  NodeRead without(a_request({"/a"}));
  CHECK(without.take(FilesOver{}));
  CHECK_FALSE(without.take(GpuCallBegins{"nvmlInit"}));
}

TEST_CASE("a helper that says more than there can be is not believed") {
  NodeRead read(a_request({"/a"}));
  const FileIsRead much{"/a", {std::string(1u << 20, 'x'), {}, false}};
  int taken = 0;
  while (taken < 1000 && read.take(much)) ++taken;
  CHECK(taken > 32);
  CHECK(taken < 200);
}
