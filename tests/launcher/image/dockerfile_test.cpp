// What a build depends on: FROM of real Dockerfiles, .dockerignore, the hash of it all.
#include "launcher/image/registry.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/catch.h"

using namespace muster;

namespace {

namespace fs = std::filesystem;

class BuildFolder {
 public:
  BuildFolder() {
    std::string name = (fs::temp_directory_path() / "muster-build-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  BuildFolder(const BuildFolder&) = delete;
  ~BuildFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  std::string hash(const std::string& dockerfile = "FROM scratch\n") const {
    return *build_hash(path_, dockerfile);
  }

 private:
  fs::path path_;
};

}  // namespace

TEST_CASE("a Dockerfile begins with the images that its FROM lines name, stages left out") {
  // As in the Dockerfiles of Azure's examples, and with the forms that docker documents.
  const std::string text =
      "# syntax=docker/dockerfile:1\n"
      "ARG BASE=mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04\n"
      "ARG TAG=latest\n"
      "FROM --platform=linux/amd64 ${BASE}:$TAG AS Builder\n"
      "RUN echo FROM nothing\n"
      "from python:3.12\n"
      "COPY --from=builder /a /a\n"
      "FROM builder\n"
      "FROM scratch\n";
  CHECK(base_images(text) ==
        std::vector<std::string>{"mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest",
                                 "python:3.12"});
  const std::string other = with_base_images(text, {{"python:3.12", "lab:5000/python@sha256:aa"}});
  CHECK(other.find("from lab:5000/python@sha256:aa\n") != other.npos);
  CHECK(other.find("${BASE}:$TAG AS Builder") != other.npos);
  const std::string pinned = with_base_images(
      text, {{"mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest", "m@sha256:bb"}});
  CHECK(pinned.find("FROM --platform=linux/amd64 m@sha256:bb AS Builder") != pinned.npos);
}

TEST_CASE("no image comes into a build unseen") {
  const std::string text =
      "FROM \\\n  evil/base:1 \\\n  AS one\n"
      "FROM one\n"
      "COPY --chown=1:1 --from=evil/copied /a /b\n"
      "copy --from=one /a --from=0 /b\n"
      "RUN --mount=type=bind,from=evil/mounted,target=/x \\\n# a remark\n  --mount=type=cache ls\n"
      "ONBUILD COPY --from=evil/later /a /b\n"
      "RUN echo from=nothing --from=nothing\n";
  CHECK(base_images(text) ==
        std::vector<std::string>{"evil/base:1", "evil/copied", "evil/mounted", "evil/later"});
  const std::string pinned = with_base_images(
      text, {{"evil/base:1", "lab/b@sha256:aa"}, {"evil/copied", "lab/c@sha256:bb"}});
  CHECK(pinned.find("FROM \\\n  lab/b@sha256:aa \\\n  AS one\nFROM one\n") == 0);
  CHECK(pinned.find("--from=lab/c@sha256:bb /a") != pinned.npos);
  CHECK(with_base_images(text, {}) == text);
}

TEST_CASE("a .dockerignore leaves out below its root, and keeps what a later line takes back") {
  const DockerIgnore ignore(
      "# comment\n"
      "*.log\n"
      "/data/\n"
      "!data/small\n"
      "**/__pycache__\n"
      "a/*/c\n");
  CHECK(ignore.leaves_out("x.log"));
  CHECK_FALSE(ignore.leaves_out("sub/x.log"));
  CHECK(ignore.leaves_out("data"));
  CHECK(ignore.leaves_out("data/large/1.bin"));
  CHECK_FALSE(ignore.leaves_out("data/small"));
  CHECK_FALSE(ignore.leaves_out("data/small/1.bin"));
  CHECK(ignore.leaves_out("sub/__pycache__/m.pyc"));
  CHECK(ignore.leaves_out("a/b/c/d"));
  CHECK_FALSE(ignore.leaves_out("a/b/d"));
  CHECK_FALSE(DockerIgnore("").leaves_out("a"));
}

TEST_CASE("the hash of a build changes with what goes into the image, and with nothing else") {
  const BuildFolder folder;
  folder.put("Dockerfile", "FROM scratch\n");
  folder.put("app/main.py", "print(1)\n");
  folder.put(".dockerignore", "*.log\n");
  const std::string before = folder.hash();
  folder.put("noise.log", "1");
  CHECK(folder.hash() == before);
  CHECK(folder.hash("FROM a@sha256:bb\n") != before);
  folder.put("app/main.py", "print(2)\n");
  const std::string after = folder.hash();
  CHECK(after != before);
  REQUIRE(::chmod((folder.path() / "app/main.py").c_str(), 0755) == 0);
  CHECK(folder.hash() != after);
  folder.put("app/main.py", "print(1)\n");
  REQUIRE(::chmod((folder.path() / "app/main.py").c_str(), 0644) == 0);
  CHECK(folder.hash() == before);
}

TEST_CASE("a conda environment comes first in the PATH of its image") {
  const std::string text = conda_dockerfile("m@sha256:aa");
  CHECK(base_images(text) == std::vector<std::string>{"m@sha256:aa"});
  CHECK(text.find("-p /opt/muster/env") != text.npos);
  CHECK(text.find("ENV PATH=/opt/muster/env/bin:") != text.npos);
}
