#include "health/fabric/tools.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "health/fabric/readers.h"
#include "tests/catch.h"
#include "tests/health/fabric/fabric_samples.h"

using namespace muster;
using namespace muster::fabric_samples;
using namespace std::chrono_literals;

namespace {

// A directory of tools that are scripts, and are found nowhere else.
class FakeTools {
 public:
  FakeTools() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-tools-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    options.places = {path_ + "/"};
    options.deadline = 10s;
  }
  ~FakeTools() { std::filesystem::remove_all(path_); }

  void has(const std::string& tool, const std::string& script) const {
    const std::string file = path_ + "/" + tool;
    std::ofstream(file) << "#!/bin/sh\ncd " << path_ << "\necho run >>runs\n" << script << "\n";
    ::chmod(file.c_str(), 0755);
  }
  void says(const std::string& tool, std::string_view text) const {
    std::ofstream(path_ + "/" + tool + ".txt") << text;
    has(tool, "cat " + tool + ".txt");
  }
  int runs() const {
    std::ifstream file(path_ + "/runs");
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  FileReading said(FabricTool tool) const { return ask_fabric_tool(tool, options).said; }

  FabricToolOptions options;

 private:
  std::string path_;
};

// The tools of the machine of the test are not asked.
class NoPath {
 public:
  NoPath() : before_(::getenv("PATH")) { ::setenv("PATH", "/usr/bin:/bin", 1); }
  ~NoPath() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

}  // namespace

TEST_CASE("a fabric tool is asked once when it answers") {
  const NoPath path;
  const FakeTools tools;
  tools.says("iblinkinfo", linked);
  const FileReading said = tools.said(FabricTool::links);
  CHECK(said.error.empty());
  CHECK(read_iblinkinfo(said).reading.is_whole());
  CHECK(tools.runs() == 1);
}

TEST_CASE("a fabric tool that is not installed names its package") {
  const NoPath path;
  const FakeTools tools;
  const FileReading said = tools.said(FabricTool::manager);
  CHECK(said.is_missing);
  CHECK_THAT(said.error, ContainsSubstring("infiniband-diags"));
}

TEST_CASE("a fabric tool that hangs once is asked again") {
  const NoPath path;
  FakeTools tools;
  tools.options.deadline = 1s;
  tools.has("sminfo",
            "[ $(wc -l <runs) -gt 1 ] || exec sleep 60\necho '" + std::string(manager) + "'");
  const auto answer = ask_fabric_tool(FabricTool::manager, tools.options);
  CHECK(answer.said.error.empty());
  CHECK(read_sminfo(answer.said)->state == "SMINFO_MASTER");
  CHECK(answer.took >= 1s);
  CHECK(tools.runs() == 2);
}

TEST_CASE("a fabric tool that always hangs is killed twice, and there is no answer") {
  const NoPath path;
  FakeTools tools;
  tools.options.deadline = 1500ms;  // a shell begins within
  tools.has("ibqueryerrors", "echo '## Summary: half'\nexec sleep 60");
  const auto answer = ask_fabric_tool(FabricTool::errors, tools.options);
  CHECK_THAT(answer.said.error, ContainsSubstring("no answer within 1500 ms, twice"));
  CHECK(answer.said.text.empty());
  CHECK(answer.took < 20s);
  CHECK(tools.runs() == 2);
}

TEST_CASE("that ibqueryerrors found errors is an answer, that iblinkinfo failed is none") {
  const NoPath path;
  const FakeTools tools;
  tools.says("ibqueryerrors", counted);
  tools.has("ibqueryerrors", "cat ibqueryerrors.txt; exit 1");
  CHECK(read_ibqueryerrors(tools.said(FabricTool::errors)).is_whole());
  tools.has("iblinkinfo", "echo half; echo 'ibpanic: no UMAD port' >&2; exit 255");
  const FileReading said = tools.said(FabricTool::links);
  CHECK_THAT(said.error, ContainsSubstring("ended with 255: ibpanic: no UMAD port"));
  tools.has("ibqueryerrors", "echo 'ibwarn: nobody' >&2; exit 255");
  CHECK_FALSE(tools.said(FabricTool::errors).ok());
}

TEST_CASE("counters of ports that did not answer are requested once more") {
  const NoPath path;
  const FakeTools tools;
  tools.says("ibqueryerrors", no_errors);
  tools.has("ibqueryerrors",
            "[ $(wc -l <runs) -gt 1 ] || echo 'ibwarn: [1] q: query failed on n2 mlx5_0, Lid 6 "
            "port 1' >&2\ncat ibqueryerrors.txt");
  const FabricErrors errors = read_ibqueryerrors(tools.said(FabricTool::errors));
  CHECK(errors.unanswered.empty());
  CHECK(errors.is_whole());
  CHECK(tools.runs() == 2);
}

TEST_CASE("the port of this host by which tools look is named to them") {
  FabricToolOptions options;
  CHECK(fabric_tool_argv(FabricTool::discover, options) ==
        std::vector<std::string>{"ibnetdiscover", "-p"});
  options.port = HcaPort{"mlx5_2", 2};
  CHECK(fabric_tool_argv(FabricTool::errors, options) ==
        std::vector<std::string>{"ibqueryerrors", "--data", "-C", "mlx5_2", "-P", "2"});
}
