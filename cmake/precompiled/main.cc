// A source for the target that owns the precompiled headers: PlimsollPrecompiled.cmake.
int main() {}
