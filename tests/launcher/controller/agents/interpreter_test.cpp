#include "launcher/controller/agents/work_message.h"

#include "tests/catch.h"

namespace muster {
namespace {

TEST_CASE("the interpreter is the first word when it is one") {
  using Words = std::vector<std::string>;
  CHECK(interpreters_of("python3 train.py") == Words{"python3"});
  CHECK(interpreters_of("  python3.11 -m x") == Words{"python3.11"});
  CHECK(interpreters_of("bash run.sh; echo") == Words{"bash"});
}

TEST_CASE("what the shell must work out first names no interpreter") {
  for (const char* command : {"", "   ", "X=1 python3 a.py", "./python3 a.py", "echo python3",
                              "$PYTHON a.py", "pythonish a.py", "exec python3", "(python3)"}) {
    CHECK(interpreters_of(command).empty());
  }
}

}  // namespace
}  // namespace muster
