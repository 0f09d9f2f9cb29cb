#include "health/nvml/library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace muster {

namespace {

std::string path_or_usual(std::string path) {
  if (!path.empty()) return path;
  const char* named = std::getenv(nvml_library_variable);
  return named != nullptr && *named != '\0' ? named : nvml_library_default;
}

}  // namespace

void NvmlLibrary::Unload::operator()(void* handle) const {
  ::dlclose(handle);
}

Result<NvmlLibrary> NvmlLibrary::load(std::string path) {
  path = path_or_usual(std::move(path));
  void* handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error{"cannot load " + path + ": " + (why == nullptr ? "no reason given" : why)};
  }
  NvmlLibrary library;
  library.handle_.reset(handle);
  return library;
}

void* NvmlLibrary::find(const NvmlCall& what) const {
  if (!handle_) return nullptr;
  for (const char* symbol : what.symbols) {
    void* found = symbol == nullptr ? nullptr : ::dlsym(handle_.get(), symbol);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace muster
