// What becomes of a service is told in its file; the program under it is a shell here.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "launcher/agent/keeper/files.h"
#include "launcher/agent/node/run_directory.h"
#include "launcher/os/read_file.h"
#include "tests/catch.h"

using namespace muster;

namespace {

class Services {
 public:
  Services() {
    REQUIRE(::mkdtemp(spool_.data()) != nullptr);
    std::filesystem::create_directory(spool_ + "/services");
  }
  ~Services() { std::filesystem::remove_all(spool_); }
  Services(const Services&) = delete;

  // What is known of it when it has ended.
  std::string run(const ServiceSpec& spec, const std::string& path = "/usr/bin:/bin") {
    StartRanks start;
    start.services["s"] = spec;
    AttemptLayout layout;
    layout.spool = spool_;
    REQUIRE(save_start(layout, start));
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("PATH", path.c_str(), 1);
      ::dup2(::open(file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
      ::_exit(agent_service({spool_, "s"}));
    }
    int status = 1;
    rusage used{};
    REQUIRE(::wait4(child, &status, 0, &used) == child);
    CHECK(status == 0);
    memory_kib = used.ru_maxrss;
    return text_of_file(file("json"));
  }
  long memory_kib = 0;  // at most, of the process beside the last one
  std::string file(const std::string& kind) const { return spool_ + "/services/s." + kind; }

 private:
  std::string spool_ = "/tmp/muster-service-XXXXXX";
};

ServiceSpec custom(const std::string& command) {
  ServiceSpec spec;
  spec.type = "custom";
  spec.command = command;
  return spec;
}

TEST_CASE("a service that ended tells its code, where it listened and its token to its owner") {
  Services services;
  const std::string told = services.run(custom("exit 3"));
  CHECK_THAT(told, ContainsSubstring(R"("note":"with code 3; log: )"));
  CHECK_THAT(told, ContainsSubstring(R"("state":"ended")"));
  CHECK_THAT(told, ContainsSubstring("\"socket\":\"" + services.file("sock") + "\""));
  CHECK_THAT(told, ContainsSubstring("\"token\":\""));
  struct stat facts {};
  REQUIRE(::stat(services.file("json").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  CHECK_THAT(services.run(custom("kill -9 $$")), ContainsSubstring("with code 137"));
  CHECK(services.run(custom("exit 3")) != told);  // another token
}

TEST_CASE("the socket's path that a program gets is short, and leads to the one that is told") {
  Services services;
  services.run(custom("[ ${#MUSTER_SERVICE_SOCKET} -lt 60 ] && : >$MUSTER_SERVICE_SOCKET"));
  CHECK(path_exists(services.file("sock")));
}

TEST_CASE(
    "the last line of a service that ended is told, without its token and control characters") {
  Services services;
  const std::string told = services.run(
      custom("printf 'first\\n\\033[31mno\\tport %s' $MUSTER_SERVICE_TOKEN >&2; sleep 1 & exit 4"));
  CHECK_THAT(told,
             ContainsSubstring("with code 4: ?[31mno port TOKEN; log: " + services.file("log")));
  CHECK_THAT(text_of_file(services.file("log")), ContainsSubstring("first\n"));
  CHECK_THAT(services.run(custom("printf %0999d 1")), !ContainsSubstring(std::string(201, '0')));
}

TEST_CASE("a log is kept up to its limit, and who prints more goes on") {
  Services services;
  services.run(custom("true"));
  const long usual_kib = services.memory_kib;
  const std::string told = services.run(custom("yes | head -c 70000000; echo over; exit 5"));
  CHECK(services.memory_kib < usual_kib + (20 << 10));
  CHECK_THAT(told, ContainsSubstring("with code 5: over"));
  const auto size = std::filesystem::file_size(services.file("log"));
  const std::uintmax_t limit = 64 << 20;
  CHECK(size > limit);
  CHECK(size < limit + 100);
}

TEST_CASE("whether the process of a service lives can be seen") {
  Services services;
  const std::string held = services.file("held");
  CHECK_THAT(services.run(custom("[ -d " + held + " ]")), ContainsSubstring("with code 0"));
  CHECK(std::filesystem::is_symlink(held));
  CHECK(!path_exists(held + "/s.json"));
}

TEST_CASE("a stop of the attempt ends a service, and how that ended is told") {
  Services services;
  CHECK_THAT(services.run(custom("kill -TERM $PPID; exit 3")), ContainsSubstring("with code 3"));
}

TEST_CASE("a program that is missing is told with what to install") {
  Services services;
  ServiceSpec spec;
  spec.type = "jupyter_lab";
  const std::string told = services.run(spec, "/nowhere");
  CHECK_THAT(told, ContainsSubstring(R"("state":"missing")"));
  CHECK_THAT(told, ContainsSubstring("no program 'jupyter' in PATH; pip install jupyterlab"));
  spec.type = "of another version";
  CHECK_THAT(services.run(spec), ContainsSubstring("its type is unknown on this node"));
}

TEST_CASE("whether the job itself listens is not known") {
  Services services;
  ServiceSpec spec = custom("");
  spec.port = 8080;
  const std::string told = services.run(spec);
  CHECK_THAT(told, ContainsSubstring(R"("port":8080)"));
  CHECK_THAT(told, ContainsSubstring(R"("state":"unknown")"));
  spec.command = "true";
  CHECK_THAT(services.run(spec), !ContainsSubstring("socket"));
}

}  // namespace
