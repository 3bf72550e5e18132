def report(a,b): return ""
